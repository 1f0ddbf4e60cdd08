// Policies on graphs that no single value cuts in two: a recurrent network, skips that reach over most of the network,
// an encoder that every layer of a decoder reads, simulations with two states, a penalty that is computed first and
// added last.
#include <torch/torch.h>

#include <optional>

#include <retrace/retrace.h>

#include "programs.h"
#include "session/ways.h"
#include "support/counting.h"
#include "support/hostile.h"

namespace retrace::test::programs {

struct WithoutCuts {
  std::string name;
  Program (*make)();
  int64_t recompute_all_percent = 60, every_percent = 75;  // of the plain activations, at most
};
void PrintTo(const WithoutCuts& program, std::ostream* out) { *out << program.name; }

struct LastStep {
  std::vector<std::string> bits;  // of all steps
  int64_t activation_bytes = 0;   // the most that was live beside weights and gradients, above what was when it began
  Stats stats;
};

// Some steps, without a session if there is no policy.
LastStep steps_of(const WithoutCuts& which, const std::optional<Policy>& policy) {
  torch::manual_seed(1);
  const Program program = which.make();
  const memory::Watch watch(program.parameters);
  std::optional<Session> session;
  if (policy) session.emplace(*policy);
  LastStep last;
  for (int i = 0; i < 3; ++i) {
    memory::reset_peak();
    const int64_t before = memory::activation_peak_bytes();
    Step step;
    if (session) step = session->step();
    Tensors results{program.step()};
    step.end();
    last.activation_bytes = memory::activation_peak_bytes() - before;
    for (const at::Tensor& p : program.parameters) results.push_back(p.grad());
    last.bits.push_back(bits_of(results));
  }
  if (session) last.stats = session->stats();
  return last;
}

class ProgramsWithoutCuts : public ::testing::TestWithParam<WithoutCuts> {};

TEST_P(ProgramsWithoutCuts, TakeMuchLessThanThePlainActivations) {
  RETRACE_SKIP_IF_HOSTILE();
  const LastStep plain = steps_of(GetParam(), std::nullopt);
  const std::pair<Policy, int64_t> most_percent[] = {{recompute_all(), GetParam().recompute_all_percent},
                                                     {every(2), GetParam().every_percent}};
  for (const auto& [policy, percent] : most_percent) {
    const NothingLeaks nothing_leaks;
    const LastStep ours = steps_of(GetParam(), policy);
    EXPECT_TRUE(ours.bits == plain.bits) << policy.name();
    EXPECT_LE(100 * ours.activation_bytes, percent * plain.activation_bytes)
        << policy.name() << ": " << ours.activation_bytes << " of " << plain.activation_bytes;
    EXPECT_LE(ours.stats.ops_replayed, 2 * ours.stats.ops_recorded) << policy.name();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProgramsWithoutCuts,
                         ::testing::Values(WithoutCuts{"lstm", deep_lstm}, WithoutCuts{"gru", deep_gru, 70, 70},
                                           WithoutCuts{"unet", deep_unet}, WithoutCuts{"seq2seq", deep_seq2seq},
                                           WithoutCuts{"mass_and_springs", mass_and_springs, 40, 40},
                                           WithoutCuts{"leapfrog", leapfrog, 40, 40},
                                           WithoutCuts{"penalized_mlp", penalized_mlp}),
                         [](const auto& info) { return info.param.name; });

}  // namespace retrace::test::programs
