// Plans for budgets of one tape, as a Session makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "plan/solve/plan.h"
#include "plan/solve/planner.h"

namespace retrace::report {

// Rebuilding all of such a tape each time, for the smallest budget there is, would take the square of its operators.
inline bool is_large(const plan::Graph& tape) { return tape.ops.size() > 5000; }

struct BudgetPlan {
  std::shared_ptr<const plan::Graph> graph;  // that the plan is for: the tape's, without the roots that it does without
  plan::Plan plan;
};

class BudgetPlans {
 public:
  // `tape` must outlive it. No more than `most_effort` for each budget; `stop` ends a search soon, at the best plan
  // found so far.
  explicit BudgetPlans(const plan::Graph& tape, int64_t most_effort = plan::kUnlimited, std::stop_token stop = {});

  // None if no plan fits. On a large tape a quick plan is enough if it is close to the bound; and a budget below
  // smallest() for which no quick plan is found counts as one that does not fit, since to prove it would take minutes.
  // What was found for one budget helps with the next. Of a large tape nothing is shared, so that several threads may
  // ask.
  std::optional<BudgetPlan> within(int64_t budget_bytes);

  // The smallest budget that is known to hold, with the peaks of all events. Of a large tape: the lowest peak of the
  // named policies if there is a plan for that, else what the values that they keep lead to.
  plan::Outcome smallest();

  // The smallest budget at a bearable price (plan/solve/bearable.h); of a large tape, the lowest peak of named
  // policies.
  int64_t bearable_bytes() const;

 private:
  struct Lean {
    plan::Choices choices;
    plan::Outcome outcome = {};
  };
  struct Form {
    std::shared_ptr<const plan::Graph> graph;
    std::unique_ptr<plan::Planner> planner;  // once it is needed
    mutable std::optional<Lean> lean;        // of a large tape, once it is needed
  };
  std::optional<plan::Plan> search(Form& form, int64_t budget_bytes);
  std::optional<plan::Plan> search_large(const Form& form, int64_t budget_bytes) const;

  const Lean& lean_of(const Form& form) const;
  int64_t lowest_policy_peak() const;

  mutable std::mutex mutex_;  // of what is made once it is needed
  mutable std::optional<int64_t> lowest_policy_peak_;
  const plan::Graph& tape_;
  const int64_t most_effort_;
  const std::stop_token stop_;
  std::vector<Form> forms_;
};

// The graph that `plan` is for, by which of a tape's roots it does without. Throws what plan::verify() throws if it
// fits none.
plan::Graph graph_of(const plan::Plan& plan, const plan::Graph& tape);

}  // namespace retrace::report
