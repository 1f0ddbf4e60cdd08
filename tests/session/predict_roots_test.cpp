// Roots that the program makes, reads and writes over in a step: what a step within a budget takes is what its plan
// said.
#include <torch/torch.h>

#include "session/chain.h"
#include "support/hostile.h"

namespace retrace::test::predicted_roots {

using torch::Tensor;

constexpr int64_t kNumbers = 64 * 64;

// Written with a pointer, so that nobody can make it again.
Tensor root() {
  Tensor t = torch::empty({64, 64});
  for (int64_t i = 0; i < kNumbers; ++i) t.data_ptr<float>()[i] = static_cast<float>(i % 7) * 0.1F;
  return t;
}

void expect_predicted(const std::function<void(const Chain&, const Tensor&)>& run) {
  RETRACE_SKIP_IF_HOSTILE();
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { run(chain, x); });
  for (const double share : {0.0, 0.2, 0.5, 0.8}) {
    const int64_t budget_bytes = work.between(share);
    Session session(budget(budget_bytes), {.planning = Planning::foreground});
    for (int i = 0; i < 4; ++i) {
      chain.clear();
      memory::reset_peak();
      const auto step = session.step();
      run(chain, x);
      EXPECT_LE(memory::peak_bytes(), budget_bytes);
      EXPECT_TRUE(work.gradients() == chain.gradients());
      if (i == 0 || !session.stats().followed_plan) continue;
      EXPECT_EQ(session.plan()->peak_bytes, memory::peak_bytes()) << "share " << share << ", step " << i + 1;
    }
  }
}

TEST(PredictedRoots, ThatAGraphHadSavedWhichDiedInForward) {
  expect_predicted([](const Chain& chain, const Tensor& x) {
    {
      const Tensor t = root();
      (chain.weights.front() * t).sum();
      t.sin();
    }
    chain.loss(x).backward();
  });
}

TEST(PredictedRoots, ThatAutogradSavedAndOthersReadAsWell) {
  expect_predicted([](const Chain& chain, const Tensor& x) {
    const Tensor loss = chain.loss(x);
    const Tensor product = [&] {
      const Tensor t = root();
      return (chain.weights.back() * t).sum() + t.sin().sum();
    }();
    (loss + product).backward();
  });
}

}  // namespace retrace::test::predicted_roots
