// bfloat16, for those who ask for it.
#include <gtest/gtest.h>

#include <cmath>

#include "session/budget_steps.h"
#include "support/hostile.h"

namespace retrace::test::lossy {

const Training kTraining{"gpt"};

int64_t tight_budget() {
  const int64_t smallest = smallest_budget(kTraining);
  return smallest + (highest_peak(train(kTraining, std::nullopt)) - smallest) / 2;
}

TEST(Bfloat16, IsNeverUsedUnasked) {
  const auto plain = train(kTraining, std::nullopt);
  const auto ours = train(kTraining, budget(tight_budget()));
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].bits == plain[i].bits) << "step " << i + 1;
  ASSERT_TRUE(ours.back().plan);
  EXPECT_EQ(ours.back().plan->values_lossy, 0);
}

// A chain of matrix products: rebuilding one takes many times what rounding it does, on any machine.
struct Seen {
  std::vector<std::vector<float>> gradients;  // of each step, in memory that is not counted
  std::vector<int64_t> peaks;
  int64_t lossy = 0;
};

Seen train_chain(const std::function<std::optional<Session>()>& make_session) {
  torch::manual_seed(2);
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i) net->push_back(torch::nn::Linear(512, 512));
  const at::Tensor x = torch::randn({1024, 512});
  std::optional<Session> session = make_session();
  Seen run;
  for (int i = 0; i < 4; ++i) {
    net->zero_grad(true);
    memory::reset_peak();
    {
      const std::unique_ptr<Step> step(session ? new Step(session->step()) : nullptr);
      net->forward(x).pow(2).mean().backward();
    }
    run.peaks.push_back(memory::peak_bytes());
    std::vector<float>& all = run.gradients.emplace_back();
    for (const at::Tensor& p : net->parameters()) {
      const auto* const begin = p.grad().data_ptr<float>();
      all.insert(all.end(), begin, begin + p.grad().numel());
    }
  }
  if (session && session->plan()) run.lossy = session->plan()->values_lossy;
  return run;
}

TEST(Bfloat16, IsInThePlanIfAskedForHoldsTheBudgetAndStaysClose) {
  const Seen plain = train_chain([] { return std::optional<Session>(); });
  const int64_t bytes = plain.peaks.front() * 85 / 100;
  const Seen ours = train_chain([&] {
    return std::optional<Session>(std::in_place, budget(bytes).allow_bfloat16(), SessionOptions{Verify::always});
  });
  EXPECT_GT(ours.lossy, 0);
  for (const int64_t peak : ours.peaks) EXPECT_LE(peak, bytes);
  EXPECT_EQ(ours.gradients.front(), plain.gradients.front()) << "the first step has no plan, and is exact";
  double difference = 0, all = 0;
  for (size_t i = 0; i < plain.gradients.back().size(); ++i) {
    const double exact = plain.gradients.back()[i], lost = ours.gradients.back()[i] - exact;
    difference += lost * lost;
    all += exact * exact;
  }
  const double relative = std::sqrt(difference / all);
  EXPECT_GT(relative, 0) << "what is lost must show somewhere";
  EXPECT_LT(relative, 0.02);  // bfloat16 has 8 bits of fraction: half a last bit is 0.2 %
}

}  // namespace retrace::test::lossy
