// Regions and steps as a user of Retrace writes them.
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
  Results region(const Statement& scope, const Body& body, Results inputs) override {
    const CheckpointOptions options{policy_of(scope), scope.ints.at(kVerify) != 0};
    // The short form, where the options are the default ones, is the form most people use.
    if (scope.ints.at(kPolicyKind) == kRecomputeAll && !options.verify) return checkpoint(body, std::move(inputs));
    return checkpoint(options, body, std::move(inputs));
  }

  void step(const Statement& scope, const std::function<void()>& body) override {
    auto& session = sessions_[scope.ints.at(kSessionNumber)];
    if (!session) {
      const Verify verify = scope.ints.at(kVerify) != 0 ? Verify::always : Verify::never;
      session = std::make_unique<Session>(policy_of(scope), SessionOptions{verify});
    }
    const auto step = session->step();
    body();
  }

 private:
  std::map<int64_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace

std::unique_ptr<Scopes> retrace_scopes() { return std::make_unique<RetraceScopes>(); }

}  // namespace retrace::random
