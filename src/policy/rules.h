// What the recorder asks of a policy. The public side is <retrace/policy.h>.
#pragma once

#include <string>

#include <retrace/budget.h>
#include <retrace/policy.h>

namespace retrace {

// How a scope uses cut vertices: values that everything recorded after them depends on.
struct CutUse {
  int64_t keep_period = 0;  // keep every n-th; 0: keep none
  // A long rebuild holds some cut vertices instead of everything on its way. Where they are missing, or where the
  // policy keeps all that would be held, it holds frontiers (policy/frontiers.h).
  bool rebuild_in_segments = false;
};

class PolicyRules {
 public:
  virtual ~PolicyRules() = default;
  virtual std::string name() const = 0;
  virtual bool may_drop() const { return true; }
  virtual CutUse cuts() const { return {}; }
  virtual const Budget* budget() const { return nullptr; }
  // False when decide() ignores its argument, so that the recorder need not describe the operator.
  virtual bool looks_at_operators() const { return false; }
  // Called once per recorded operator when looks_at_operators(); otherwise the answer is `recompute`.
  virtual Decision decide(const OpInfo&) const { return Decision::recompute; }
};

// For a Session, never for a checkpoint.
Policy within_budget(const Budget& budget);

// Names have been checked by the caller. "ns::op" matches every overload, "ns::op.overload" one.
Policy selective_of_known(std::vector<std::string> operators);

}  // namespace retrace
