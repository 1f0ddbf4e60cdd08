#include <unordered_set>

#include <retrace/errors.h>

#include "policy/rules.h"

namespace retrace {
namespace {

class KeepAll : public PolicyRules {
 public:
  std::string name() const override { return "keep_all"; }
  bool may_drop() const override { return false; }
};

class RecomputeAll : public PolicyRules {
 public:
  std::string name() const override { return "recompute_all"; }
  CutUse cuts() const override { return {.rebuild_in_segments = true}; }
};

class Every : public PolicyRules {
 public:
  explicit Every(int64_t n) : n_(n) {}
  std::string name() const override { return "every:" + std::to_string(n_); }
  CutUse cuts() const override { return {.keep_period = n_, .rebuild_in_segments = true}; }

 private:
  int64_t n_;
};

class Selective : public PolicyRules {
 public:
  explicit Selective(std::vector<std::string> operators) : operators_(operators.begin(), operators.end()) {}
  std::string name() const override { return "selective"; }
  bool looks_at_operators() const override { return true; }
  Decision decide(const OpInfo& op) const override {
    std::string full(op.name);
    if (operators_.contains(full)) return Decision::keep;
    full.append(".").append(op.overload);
    return operators_.contains(full) ? Decision::keep : Decision::recompute;
  }

 private:
  std::unordered_set<std::string> operators_;
};

class Custom : public PolicyRules {
 public:
  explicit Custom(std::function<Decision(const OpInfo&)> decide) : decide_(std::move(decide)) {}
  std::string name() const override { return "custom"; }
  bool looks_at_operators() const override { return true; }
  Decision decide(const OpInfo& op) const override { return decide_(op); }

 private:
  std::function<Decision(const OpInfo&)> decide_;
};

class WithinBudget : public PolicyRules {
 public:
  explicit WithinBudget(const Budget& budget) : budget_(budget) {}
  std::string name() const override { return "budget:" + budget_.text(); }
  const Budget* budget() const override { return &budget_; }

 private:
  Budget budget_;
};

}  // namespace

std::string Policy::name() const { return rules_->name(); }

Policy within_budget(const Budget& budget) { return Policy(std::make_shared<WithinBudget>(budget)); }

Policy keep_all() {
  static const Policy policy(std::make_shared<KeepAll>());
  return policy;
}

Policy recompute_all() {
  static const Policy policy(std::make_shared<RecomputeAll>());
  return policy;
}

Policy every(int64_t n) {
  if (n < 1) {
    throw UsageError("[every] n is " + std::to_string(n) +
                     ", so no cut vertex could be chosen: pass 1 to keep all of them, 2 to keep every second, ...");
  }
  return Policy(std::make_shared<Every>(n));
}

Policy custom(std::function<Decision(const OpInfo&)> decide) {
  if (!decide) throw UsageError("[custom] the function is empty, so nothing could be decided: pass a callable.");
  return Policy(std::make_shared<Custom>(std::move(decide)));
}

Policy selective_of_known(std::vector<std::string> operators) {
  return Policy(std::make_shared<Selective>(std::move(operators)));
}

}  // namespace retrace
