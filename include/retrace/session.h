// A Session puts a policy around whole training steps, with no change to the model.
//
//   retrace::Session session(retrace::budget("1.5GiB"));   // or a policy: retrace::every(4)
//   for (auto& batch : *loader) {
//     auto step = session.step();
//     auto loss = criterion(model->forward(batch.data), batch.target);
//     loss.backward();
//     optimizer.step();
//   }
#pragma once

#include <retrace/cxx20.h>

#include <memory>
#include <optional>
#include <string>

#include <retrace/budget.h>
#include <retrace/names.h>
#include <retrace/plan.h>
#include <retrace/policy.h>
#include <retrace/stats.h>

namespace retrace {

enum class Verify { never, first_step, always };

enum class Planning { background, foreground };

struct SessionOptions {
  // Compare every byte of each rebuilt value with a fingerprint of the original, and notice every byte that is written
  // behind LibTorch's back. Costs some passes over what is computed. first_step: the first step of each of four kinds,
  // then no more than one new step in 32 (in 8 if content was ever written so). Of other new steps, operators that
  // never ran after such operators before; of the first step that follows a new plan, what that plan forgets. All else
  // is compared by a sample.
  Verify verify = Verify::first_step;

  // Under a budget. background: before a kind of step comes back it gets a quick plan, made in about 2 % of its time or
  // 5 ms; a thread of low priority looks for a better one, which a later step adopts. foreground: the next step waits
  // for the full search, and the same steps get the same plans in every run: for tests and benchmarks.
  Planning planning = Planning::background;
};

namespace detail {
class SessionState;
}

// While a Step lives, the operators that this thread runs are recorded under the session's policy. Backward may run
// inside it or after it has ended: the tape lives as long as the autograd graph.
//
// It belongs to the thread that began it, which must end it too. If another thread ends it, the session's next step()
// throws UsageError, since what its own thread ran meanwhile was recorded as part of it. It can be moved (not to
// another thread), and be empty:
//
//   retrace::Step step;                       // or std::optional<retrace::Step>
//   if (session) step = session->step();
class Step {
 public:
  Step() = default;
  ~Step() { end(); }
  Step(Step&& other) noexcept = default;
  Step& operator=(Step&& other) noexcept {
    if (this == &other) return *this;
    end();
    session_ = std::move(other.session_);
    scope_ = std::move(other.scope_);
    open_ = std::move(other.open_);
    return *this;
  }

  void end() noexcept;  // now, not at the end of the scope. Does nothing if it is empty or has ended
  explicit operator bool() const { return session_ != nullptr; }  // it is open

 private:
  friend class Session;
  explicit Step(std::shared_ptr<detail::SessionState> session);
  std::shared_ptr<detail::SessionState> session_;
  std::shared_ptr<void> scope_;
  std::shared_ptr<void> open_;
};

class Session {
 public:
  explicit Session(Policy policy, SessionOptions options = {});

  // All live tensor bytes stay within the budget from the first step on. A step of a kind not seen before keeps what
  // autograd keeps, and lets go of what is cheapest to rebuild when memory runs short; steps that come back follow a
  // plan (see SessionOptions::planning). A budget in percent is of the peak that the plain program would have in this
  // kind of step with what is live now; the first that has a backward runs as the plain program and shows it. Sessions
  // on several threads share the memory. If a step shows that the budget cannot hold, backward() throws
  // InfeasibleBudget, which names the smallest that can. The gradients are right then, and the peak was above the
  // budget. While something was saved that no backward has asked for yet, or if only what came after backward broke the
  // budget (an optimizer that made its state), the next step() throws instead. A step under a budget must be the
  // outermost scope of its thread, and governs the checkpoints inside it.
  explicit Session(Budget budget, SessionOptions options = {});

  // Begins a step on the calling thread. Steps of other sessions and checkpoints may nest inside it in any order.
  // Throws UsageError while a step of this session is open, on this thread or on another.
  [[nodiscard]] Step step();

  // What the latest step has done so far, backward included. `steps` counts all steps. Any thread may ask.
  Stats stats() const;

  // The plan that the latest step followed or the next one will. None without a budget, or before the second step.
  std::optional<PlanSummary> plan() const;

  // Writes what the latest complete step did (operators, values, times, bytes), for the command line to read. It may
  // write an earlier step that did the same; under a budget, with the shortest times of all such steps. Throws
  // UsageError if no step has ended yet, or the file cannot be written.
  void save_tape(const std::string& path) const;

  // From the next step on, tapes call these weights by their paths, and operators and activations by the module whose
  // weight was read last on the way to them ("blocks.3.mlp.fc1"). Naming again adds names, and replaces old ones.
  void name(const Names& names);
  template <class Module>
  void name(const Module& module, const std::string& prefix = "") {
    name(names(module, prefix));
  }

  const Policy& policy() const;

 private:
  detail::SessionState& state() const;  // throws UsageError if the session has been moved from
  std::shared_ptr<detail::SessionState> state_;
};

}  // namespace retrace
