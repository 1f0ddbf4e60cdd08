// Regions and steps as a user of Retrace writes them.
#include <algorithm>
#include <map>

#include <retrace/retrace.h>

#include "machine.h"

namespace retrace::random {

namespace {

// Operators that the programs use and that are recorded themselves. A bit each in a selective policy's parameter.
const char* const kSelectable[] = {
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::mul.Tensor",
    "aten::add.Tensor",
    "aten::tanh",
    "aten::relu",
    "aten::relu_",
    "aten::sigmoid",
    "aten::native_layer_norm",
    "aten::native_batch_norm",
    "aten::_softmax",
    "aten::cat",
    "aten::add_",
    "aten::clone",
    "aten::bernoulli_",
};

Policy selective_of(int64_t bits) {
  std::vector<std::string> names;
  for (size_t k = 0; k < std::size(kSelectable); ++k) {
    if ((bits >> k & 1) != 0) names.emplace_back(kSelectable[k]);
  }
  return selective(names);
}

Policy random_policy(int64_t seed) {
  return custom([seed](const OpInfo& op) { return Dice(static_cast<uint64_t>(seed * 4096 + op.index)).chance(0.4); });
}

Policy policy_of(const Statement& scope) {
  const int64_t parameter = scope.ints.at(kPolicyParameter);
  switch (scope.ints.at(kPolicyKind)) {
    case kKeepAll:
      return keep_all();
    case kRecomputeAll:
      return recompute_all();
    case kEvery:
      return every(parameter);
    case kSelective:
      return selective_of(parameter);
    case kSelectiveDefault:
      return selective();
    default:
      return random_policy(parameter);
  }
}

class RetraceScopes : public Scopes {
 public:
  explicit RetraceScopes(Budgets& budgets) : budgets_(budgets) {}

  Results region(const Statement& scope, const Body& body, Results inputs) override {
    const CheckpointOptions options{policy_of(scope), scope.ints.at(kVerify) != 0};
    const Inside inside(depth_);
    // The short form, where the options are the default ones, is the form most people use.
    if (scope.ints.at(kPolicyKind) == kRecomputeAll && !options.verify) return checkpoint(body, std::move(inputs));
    return checkpoint(options, body, std::move(inputs));
  }

  void step(const Statement& scope, const std::function<void()>& body) override {
    const bool budgeted = is_budget(scope) && depth_ == 0;
    const int64_t number = scope.ints.at(kSessionNumber);
    auto& session = sessions_[{number, budgeted}];
    if (!session) {
      const SessionOptions options{scope.ints.at(kVerify) != 0 ? Verify::always : Verify::never, budgets_.planning};
      session = budgeted ? std::make_unique<Session>(budget_of(scope), options)
                         : std::make_unique<Session>(policy_of(scope), options);
    }
    const Inside inside(depth_);
    if (!budgeted) {
      const auto step = session->step();
      body();
      return;
    }
    try {
      restart_peak();
      auto step = session->step();
      if (owed_.count(number) != 0) note_broken(owed_[number] + ", and the next step was not refused");
      held_bytes_ = must_hold(scope) ? *budget_of(scope).bytes() : 0;
      const int64_t start_bytes = memory::live_bytes();
      body();
      step.end();
      // One that allocated nothing took what was there before, and asked nobody.
      if (held_bytes_ > 0 && memory::peak_bytes() > std::max(held_bytes_, start_bytes)) owed_[number] = above_budget();
      forget_budget();
      note_step(*session);
    } catch (const InfeasibleBudget& error) {
      forget_budget();
      refused(scope, error);
      throw;
    } catch (...) {
      forget_budget();
      throw;
    }
  }

  void step_on_thread(const Statement& scope, const std::function<void()>& body) override {
    Session session(policy_of(scope), {scope.ints.at(kVerify) != 0 ? Verify::always : Verify::never});
    const auto step = session.step();
    body();
  }

  // A budget governs the thread of its step: what another thread takes meanwhile is counted but cannot be let go of.
  void worked_on_thread() override { forget_budget(); }

  void begin_run() override {
    memory::reset_peak();
    peak_bytes_ = 0;
  }

  int64_t peak_bytes() const override { return std::max(peak_bytes_, memory::peak_bytes()); }

 private:
  struct Inside {
    int& depth;
    explicit Inside(int& d) : depth(++d) {}
    ~Inside() { --depth; }
  };

  static bool is_budget(const Statement& scope) {
    return scope.ints.at(kPolicyKind) == kBudget || scope.ints.at(kPolicyKind) == kBudgetOfFirstStep;
  }

  bool must_hold(const Statement& scope) const {
    return budget_of(scope).bytes() && !budget_of(scope).is_best_effort();
  }

  // A budget is compared with the peak of its own step; the run's is kept beside it.
  void restart_peak() {
    peak_bytes_ = peak_bytes();
    memory::reset_peak();
  }

  Budget budget_of(const Statement& scope) const {
    const auto known = budgets_.bytes.find(scope.ints.at(kSessionNumber));
    if (scope.ints.at(kPolicyKind) == kBudgetOfFirstStep) {
      return known != budgets_.bytes.end() ? budget(budgets_.start_bytes + known->second)
                                           : budget(std::to_string(scope.ints.at(kPolicyParameter)) + "%");
    }
    const auto [percent, best_effort] = BudgetParameter::of(scope);
    const int64_t bytes = known != budgets_.bytes.end()
                              ? budgets_.start_bytes + known->second
                              : std::max<int64_t>(1, budgets_.start_bytes + budgets_.plain_peak * percent / 100);
    return best_effort ? budget(bytes).best_effort() : budget(bytes);
  }

  void refused(const Statement& scope, const InfeasibleBudget& error) {
    const Budget given = budget_of(scope);
    if (given.is_best_effort()) note_broken("a best effort was refused");
    if (given.bytes() && error.smallest_bytes <= *given.bytes()) {
      note_broken("a budget of " + std::to_string(*given.bytes()) + " was refused and " +
                  std::to_string(error.smallest_bytes) + " said to be enough");
    }
    if (given.fraction() == 1.0) note_broken("a budget of 100 % was refused");
    budgets_.smallest_named = std::max(budgets_.smallest_named, error.smallest_bytes - budgets_.start_bytes);
    budgets_.refused = scope.ints.at(kSessionNumber);
    // Above what was live before: LibTorch itself leaks (views written in place and create_graph), from run to run
    // more.
    budgets_.bytes[*budgets_.refused] = error.smallest_bytes - budgets_.start_bytes;
  }

  void note_step(const Session& session) {
    const Stats stats = session.stats();
    budgets_.step_peak_bytes = memory::peak_bytes();
    budgets_.predicted_bytes.reset();
    if (stats.followed_plan) budgets_.predicted_bytes = session.plan()->peak_bytes;
    budgets_.steps_followed += stats.followed_plan ? 1 : 0;
    budgets_.steps_rebuilding += stats.ops_replayed > 0 ? 1 : 0;
  }

  std::string above_budget() const {
    return "the peak was " + std::to_string(memory::peak_bytes()) + " when a step ended, above the budget of " +
           std::to_string(held_bytes_);
  }

  void forget_budget() { held_bytes_ = 0; }

  void note_broken(std::string text) {
    if (budgets_.broken.empty()) budgets_.broken = std::move(text);
  }

  Budgets& budgets_;
  std::map<std::pair<int64_t, bool>, std::unique_ptr<Session>> sessions_;
  int depth_ = 0;
  int64_t peak_bytes_ = 0;  // since begin_run(), before the latest restart_peak()
  int64_t held_bytes_ = 0;  // the budget of the open step, if it must hold
  // A backward that leaves a graph alive does not refuse, nor does what comes after: the session's next step() does.
  std::map<int64_t, std::string> owed_;  // by session number: steps that are still to be refused
};

}  // namespace

std::unique_ptr<Scopes> retrace_scopes(Budgets& budgets) { return std::make_unique<RetraceScopes>(budgets); }

}  // namespace retrace::random
