// The named policies around a whole step: what each keeps, what each runs again.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/run.h"

namespace retrace::test::policies {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;
constexpr int kBlocks = 12;

// A chain of residual blocks. Between blocks everything depends on the stream, inside one it does not. The stream has
// thirteen values, of which `norm` saves the last: all are needed in backward.
class Chain {
 public:
  Chain() {
    torch::manual_seed(1);
    for (int i = 0; i < kBlocks; ++i) weights_.push_back((torch::randn({64, 64}) / 8).requires_grad_());
  }
  Tensor loss() {
    Tensor stream = input_.mm(weights_.front());
    for (auto& w : weights_) stream = stream + (stream.mm(w).tanh().mm(w)).sin();
    return stream.norm();
  }
  Tensors gradients() const {
    Tensors list;
    for (const auto& w : weights_) list.push_back(w.grad());
    return list;
  }
  void forget_gradients() {
    for (auto& w : weights_) w.mutable_grad() = Tensor();
  }

 private:
  Tensor input_ = torch::randn({64, 64});
  Tensors weights_;
};

struct Measured {
  int64_t held = 0;  // units left by forward, beside the loss
  int64_t peak = 0;  // bytes above the start of the step
  Stats stats;
  Tensors gradients;
};

Measured measure(Chain& chain, const std::optional<Policy>& policy) {
  chain.forget_gradients();
  Measured result;
  std::optional<Session> session;
  if (policy) session.emplace(*policy, SessionOptions{.verify = Verify::never});
  result.peak = peak_above_start([&] {
    const LiveDelta live;
    const auto run = [&] {
      auto loss = chain.loss();
      result.held = (live.bytes() - 4) / kUnit;
      loss.backward();
    };
    if (!session) return run();
    const auto step = session->step();
    run();
  });
  if (session) result.stats = session->stats();
  result.gradients = chain.gradients();
  chain.forget_gradients();
  return result;
}

TEST(Policies, EveryOneGivesThePlainGradients) {
  Chain chain;
  const auto plain = measure(chain, std::nullopt);
  for (const auto& policy : {keep_all(), recompute_all(), every(1), every(2), every(5), every(1000), selective(),
                             selective({"aten::tanh"}), custom([](const OpInfo& op) { return op.index % 3 == 0; })}) {
    SCOPED_TRACE(policy.name());
    EXPECT_SAME_BITS(plain.gradients, measure(chain, policy).gradients);
  }
}

TEST(Policies, KeepAllHoldsNoMoreThanThePlainProgram) {
  RETRACE_SKIP_IF_HOSTILE();
  Chain chain;
  const auto plain = measure(chain, std::nullopt);
  const auto ours = measure(chain, keep_all());
  EXPECT_EQ(ours.held, plain.held);
  EXPECT_EQ(ours.peak, plain.peak);
  EXPECT_EQ(ours.stats.ops_replayed, 0);
  EXPECT_EQ(ours.stats.dropped_tensors, 0);
  EXPECT_EQ(ours.stats.kept_bytes / kUnit, plain.held);
}

TEST(Policies, RecomputeAllKeepsNothingAndRunsEachOperatorAtMostTwice) {
  Chain chain;
  const auto plain = measure(chain, std::nullopt);
  const auto ours = measure(chain, recompute_all());
  EXPECT_EQ(ours.held, 0);
  EXPECT_EQ(ours.stats.kept_bytes, 0);
  EXPECT_GT(ours.stats.ops_replayed, 0);
  EXPECT_LE(ours.stats.ops_replayed, 2 * ours.stats.ops_recorded);
  EXPECT_LT(ours.peak, plain.peak * 3 / 4);
}

TEST(Policies, EveryNKeepsEveryNthCutVertex) {
  RETRACE_SKIP_IF_HOSTILE();
  Chain chain;
  const auto plain = measure(chain, std::nullopt);
  for (const auto& [n, kept] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 13}, {2, 6}, {3, 4}, {4, 3}, {6, 2}, {100, 0}}) {
    const auto ours = measure(chain, every(n));
    EXPECT_EQ(ours.held, kept) << "every:" << n;
    if (kept > 0) {
      EXPECT_LT(ours.peak, plain.peak) << "every:" << n;
    }
    // Inside a block its values are candidates until the stream is read again.
    EXPECT_GE(ours.stats.kept_bytes / kUnit, kept) << "every:" << n;
    EXPECT_LE(ours.stats.kept_bytes / kUnit, kept + 4 / n) << "every:" << n;
  }
}

TEST(Policies, EveryNReplaysEachOperatorAtMostOnce) {
  RETRACE_SKIP_IF_HOSTILE();
  Chain chain;
  for (const int64_t n : {1, 2, 4}) {
    const auto ours = measure(chain, every(n));
    EXPECT_GT(ours.stats.ops_replayed, 0);
    EXPECT_LE(ours.stats.ops_replayed, ours.stats.ops_recorded) << "every:" << n;
  }
}

TEST(Policies, EveryOfAPureChainKeepsEveryNthResult) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = torch::randn({64, 64}).requires_grad_();
  Session session(every(4), {.verify = Verify::never});
  const auto step = session.step();
  const LiveDelta live;
  Tensor y = x;
  for (int i = 0; i < 12; ++i) y = y.sin();
  auto loss = y.norm();
  y = Tensor();
  EXPECT_EQ(live.bytes() - 4, 3 * kUnit);
  loss.backward();
  EXPECT_EQ(session.stats().ops_replayed, 9);  // 1-3, 5-7, 9-11
}

TEST(Policies, SelectiveKeepsTheNamedOperators) {
  RETRACE_SKIP_IF_HOSTILE();
  Chain chain;
  const auto ours = measure(chain, selective({"aten::tanh"}));
  EXPECT_EQ(ours.held, kBlocks);
  EXPECT_EQ(ours.stats.kept_bytes, kBlocks * kUnit);
  const auto products = measure(chain, selective());
  // In each block the second is saved by sin, and the first is what tanh's result is rebuilt from.
  EXPECT_EQ(products.held, 2 * kBlocks + 1);
  EXPECT_GT(products.stats.ops_replayed, 0);
}

TEST(Policies, KeepingMoreReplaysLess) {
  RETRACE_SKIP_IF_HOSTILE();
  Chain chain;
  const auto nothing = measure(chain, recompute_all()).stats.ops_replayed;
  const auto some = measure(chain, every(2)).stats.ops_replayed;
  const auto all = measure(chain, keep_all()).stats.ops_replayed;
  EXPECT_GE(nothing, some);
  EXPECT_GT(some, all);
}

TEST(Policies, NamesAreThoseOfTheCommandLine) {
  EXPECT_EQ(keep_all().name(), "keep_all");
  EXPECT_EQ(recompute_all().name(), "recompute_all");
  EXPECT_EQ(every(4).name(), "every:4");
  EXPECT_EQ(selective().name(), "selective");
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Policies, AnUnknownOperatorIsRefusedWithTheNearOnes) {
  const auto text = refusal([] { selective({"aten::mmm"}); });
  EXPECT_NE(text.find("[selective]"), std::string::npos) << text;
  EXPECT_NE(text.find("'aten::mmm'"), std::string::npos) << text;
  EXPECT_NE(text.find("'aten::mm'"), std::string::npos) << text;
  EXPECT_NE(refusal([] { selective({"aten::mm", "mm"}); }), "");
  EXPECT_NE(refusal([] { selective({""}); }), "");
  EXPECT_NE(refusal([] { selective({"no spaces::allowed"}); }), "");
}

TEST(Policies, AnUnknownOverloadIsRefusedWithTheNearOnes) {
  const auto text = refusal([] { selective({"aten::add.Tensr"}); });
  EXPECT_NE(text.find("'aten::add.Tensor'"), std::string::npos) << text;
}

TEST(Policies, AnOperatorMadeOfOthersIsRefusedWithAdvice) {
  for (const char* name : {"aten::linear", "aten::matmul", "aten::dropout"}) {
    const auto text = refusal([&] { selective({name}); });
    EXPECT_NE(text.find(name), std::string::npos) << name << ": " << text;
    EXPECT_NE(text.find("aten::mm"), std::string::npos) << name << ": " << text;
  }
}

TEST(Policies, EveryNeedsAtLeastOne) {
  EXPECT_THROW(every(0), UsageError);
  EXPECT_THROW(every(-3), UsageError);
}

TEST(Policies, AnEmptyFunctionIsRefused) { EXPECT_THROW(custom(std::function<Decision(const OpInfo&)>()), UsageError); }

TEST(Policies, OnePolicyServesSeveralSessions) {
  const Policy policy = every(2);
  Chain chain;
  const auto first = measure(chain, policy);
  const auto second = measure(chain, policy);
  EXPECT_EQ(first.stats.ops_replayed, second.stats.ops_replayed);
  EXPECT_SAME_BITS(first.gradients, second.gradients);
}

TEST(Policies, ACutVertexIsAValueEverythingLaterDependsOn) {
  RETRACE_SKIP_IF_HOSTILE();
  // A long skip connection: nothing between its ends is a cut vertex, so nothing is kept there.
  auto x = torch::randn({64, 64}).requires_grad_();
  Session session(every(1), {.verify = Verify::never});
  const auto step = session.step();
  const LiveDelta live;
  auto loss = [&] {
    auto start = x.sin();
    auto h = start;
    for (int i = 0; i < 6; ++i) h = h.sin();
    return (h * start).norm();
  }();
  EXPECT_EQ(live.bytes() - 4, 2 * kUnit);  // `start` and the product
  loss.backward();
}

}  // namespace retrace::test::policies
