// bfloat16, for those who ask for it.
#include <gtest/gtest.h>

#include "session/budget_steps.h"
#include "support/hostile.h"

namespace retrace::test::lossy {

const Training kTraining{"gpt"};

// Bits of floats beside each other: how far apart two runs are.
double difference(const std::string& a, const std::string& b) {
  EXPECT_EQ(a.size(), b.size());
  size_t other = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) other += a[i] != b[i];
  return static_cast<double>(other) / static_cast<double>(a.size());
}

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

TEST(Bfloat16, IsInThePlanIfAskedForAndHoldsTheBudget) {
  const int64_t bytes = tight_budget();
  const auto plain = train(kTraining, std::nullopt);
  const auto ours = train(kTraining, budget(bytes).allow_bfloat16(), {.verify = Verify::always});
  for (const StepSeen& step : ours) EXPECT_LE(step.peak_bytes, bytes);
  EXPECT_TRUE(ours.front().bits == plain.front().bits) << "the first step has no plan, and is exact";
  ASSERT_TRUE(ours.back().plan);
  EXPECT_GT(ours.back().plan->values_lossy, 0);
  EXPECT_LE(ours.back().plan->values_lossy, ours.back().plan->values_encoded);
  EXPECT_GT(difference(ours.back().bits, plain.back().bits), 0) << "what is lost must show somewhere";
}

TEST(Bfloat16, GradientsAreCloseToThoseOfThePlainProgram) {
  const auto gradient = [](const std::optional<Budget>& budget) {
    torch::manual_seed(2);
    torch::nn::Sequential net(torch::nn::Linear(64, 256), torch::nn::GELU(), torch::nn::Linear(256, 256),
                              torch::nn::GELU(), torch::nn::Linear(256, 64));
    const at::Tensor x = torch::randn({512, 64});
    std::optional<Session> session;
    if (budget) session.emplace(*budget);
    for (int i = 0; i < 3; ++i) {
      const std::unique_ptr<Step> step(session ? new Step(session->step()) : nullptr);
      net->zero_grad(true);
      net->forward(x).pow(2).mean().backward();
    }
    if (session) {
      EXPECT_GT(session->plan()->values_lossy, 0);
    }
    at::Tensor all = torch::zeros({0});
    for (const at::Tensor& p : net->parameters()) all = torch::cat({all, p.grad().flatten()});
    return all;
  };
  const at::Tensor plain = gradient(std::nullopt), ours = gradient(budget("85%").allow_bfloat16());
  const double relative = ((ours - plain).norm() / plain.norm()).item<double>();
  EXPECT_GT(relative, 0);
  EXPECT_LT(relative, 0.02);  // bfloat16 has 8 bits of fraction: half a last bit is 0.2 %
}

}  // namespace retrace::test::lossy
