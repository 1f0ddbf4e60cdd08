// Who keeps what. A policy decides, for each operator that runs, whether its results stay in memory for backward or are
// forgotten and rebuilt. Knows nothing of LibTorch.
#pragma once

#include <retrace/cxx20.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace retrace {

enum class Decision { recompute, keep };

struct TensorInfo {
  std::span<const int64_t> sizes;
  int64_t bytes = 0;       // numel × element size
  std::string_view dtype;  // "Float", "BFloat16", "Long", ...
};

// One operator that has just run, as a policy sees it. Valid only during the call.
struct OpInfo {
  std::string_view name;      // "aten::mm"
  std::string_view overload;  // "" or e.g. "Tensor"
  int64_t index = 0;          // how many operators the scope has recorded before this one
  double seconds = 0;         // how long it took
  std::span<const TensorInfo> inputs;
  std::span<const TensorInfo> outputs;
};

class PolicyRules;  // src/policy

// A value: cheap to copy, safe to share between sessions and threads.
class Policy {
 public:
  explicit Policy(std::shared_ptr<const PolicyRules> rules) : rules_(std::move(rules)) {}
  std::string name() const;  // as the command line spells it: "every:4"
  const PolicyRules& rules() const { return *rules_; }

 private:
  std::shared_ptr<const PolicyRules> rules_;
};

// Keep what autograd keeps: the plain program's memory, recorded.
Policy keep_all();

// Keep nothing but the inputs. In a checkpoint() each operator runs again at most once per backward. A Session rebuilds
// segment by segment, because to rebuild a whole step at once would take the memory that was saved; operators then run
// again up to twice. Segments lie between cut vertices (see every()). Where those are missing, a segment begins where
// few values were computed before it and are read after it.
Policy recompute_all();

// Keep every n-th cut vertex (a value that everything after it depends on, such as the stream between two blocks) and
// rebuild what lies between, each operator once. Where a quarter of a step or more has none (a recurrent layer, long
// skip connections), a Session rebuilds that part as recompute_all() does. Throws UsageError unless n >= 1.
Policy every(int64_t n);

// Keep the results of the named operators, rebuild all others. "aten::mm" means all overloads, "aten::add.Tensor" one.
// Throws UsageError for a name no loaded library registered (with the nearest ones) and for an operator that is made of
// others and therefore never recorded itself (aten::linear, aten::matmul).
Policy selective(const std::vector<std::string>& operators);

// The operators that are most expensive to repeat: matrix products and convolutions.
Policy selective();

// Ask `decide` once per recorded operator, when it has run in forward, on the training thread. Operators that `decide`
// calls are not recorded, so it must not change the step's tensors. What it throws reaches the operator's caller.
Policy custom(std::function<Decision(const OpInfo&)> decide);

// The same with a plain yes (keep) or no.
template <class F>
  requires(std::same_as<std::invoke_result_t<F&, const OpInfo&>, bool>)
Policy custom(F decide) {
  return custom(std::function<Decision(const OpInfo&)>([decide = std::move(decide)](const OpInfo& op) mutable {
    return decide(op) ? Decision::keep : Decision::recompute;
  }));
}

}  // namespace retrace
