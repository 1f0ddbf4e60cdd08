// Whole training programs, as people write them, under every policy and under budgets: the plain program's losses and
// gradients, bit for bit, in no more than its memory.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include <retrace/retrace.h>

#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "programs.h"
#include "session/ways.h"
#include "support/counting.h"
#include "support/hostile.h"

namespace retrace::test::programs {

constexpr int kSteps = 3;

void PrintTo(const Entry& entry, std::ostream* out) { *out << entry.name; }

// A training under a budget: its steps, up to the one that was refused.
struct Attempt {
  std::vector<std::string> bits;
  std::vector<int64_t> peaks;
  std::optional<InfeasibleBudget> refusal;
};

class Programs : public ::testing::TestWithParam<Entry> {
 protected:
  // Or what a plan says was compared with nothing.
  static void TearDownTestSuite() {
    if (tried_to_follow < all().size()) return;
    EXPECT_GT(steps_followed, 0);
  }
  static inline size_t tried_to_follow = 0;
  static inline int steps_followed = 0;

  static Program fresh() {
    torch::manual_seed(1);
    return GetParam().make();
  }

  // The next steps of a training, plain without a session.
  static Seen go_on(const Program& program, Session* session, int steps) {
    return train(session, steps, [&](int) {
      Tensors results{program.step()};
      for (const at::Tensor& p : program.parameters) results.push_back(p.grad());
      return results;
    });
  }

  static Seen run_plain() { return go_on(fresh(), nullptr, kSteps); }

  static Attempt attempt(const Budget& budget) {
    const Program program = fresh();
    Session session(budget);
    Attempt attempt;
    try {
      for (int i = 0; i < kSteps; ++i) {
        const Seen seen = go_on(program, &session, 1);
        attempt.bits.push_back(seen.bits[0]);
        attempt.peaks.push_back(seen.peaks[0]);
      }
    } catch (const InfeasibleBudget& refusal) {
      attempt.refusal = refusal;
    }
    return attempt;
  }

  static int64_t highest(const std::vector<int64_t>& peaks) { return *std::max_element(peaks.begin(), peaks.end()); }

  static void expect_plain_bits(const Attempt& attempt, const Seen& plain) {
    for (size_t i = 0; i < attempt.bits.size(); ++i) EXPECT_TRUE(attempt.bits[i] == plain.bits[i]) << "in step " << i;
  }
};

TEST_P(Programs, TrainAsThePlainProgramInNoMoreThanItsMemoryUnderEveryPolicy) {
  const Seen plain = run_plain();
  for (const Policy& policy : {keep_all(), recompute_all(), every(2), selective()}) {
    SCOPED_TRACE(policy.name());
    const NothingLeaks nothing_leaks;
    Session session(policy);
    const Seen seen = go_on(fresh(), &session, kSteps);
    EXPECT_TRUE(seen.bits == plain.bits);
    if (hostile()) continue;  // no policy is followed
    for (size_t i = 0; i < kSteps; ++i) EXPECT_LE(seen.peaks[i], plain.peaks[i]) << "in step " << i;
    if (policy.name() == keep_all().name()) {
      EXPECT_EQ(seen.peaks, plain.peaks);
    }
  }
}

TEST_P(Programs, AreNotRefusedAHundredPercent) {
  const Seen plain = run_plain();
  const NothingLeaks nothing_leaks;
  const Attempt whole = attempt(budget("100%"));
  EXPECT_FALSE(whole.refusal) << whole.refusal->what();
  expect_plain_bits(whole, plain);
  EXPECT_EQ(whole.peaks.at(0), plain.peaks[0]);
  for (size_t i = 0; i < whole.peaks.size(); ++i) EXPECT_LE(whole.peaks[i], plain.peaks[i]) << "in step " << i;
}

TEST_P(Programs, StayWithinEightyPercentOrAreToldASmallestBudgetThatWorks) {
  const Seen plain = run_plain();
  const NothingLeaks nothing_leaks;
  Attempt most = attempt(budget("80%"));
  expect_plain_bits(most, plain);
  EXPECT_EQ(most.peaks.at(0), plain.peaks[0]) << "it only measures";
  // The second step is the first with the optimizer's state, which the first could not show.
  for (size_t i = 2; i < most.peaks.size() && GetParam().percent_is_exact; ++i)
    EXPECT_LE(most.peaks[i], plain.peaks[i] * 8 / 10) << "in step " << i;
  // A step shows what it needs backward by backward, and the first one shows no optimizer's state: there may be one
  // more refusal, and no third.
  for (int again = 0; again < 2 && most.refusal; ++again) {
    const int64_t bytes = most.refusal->smallest_bytes;
    EXPECT_LE(bytes, highest(plain.peaks));
    most = attempt(budget(bytes));
    expect_plain_bits(most, plain);
    if (!most.refusal) {
      EXPECT_LE(highest(most.peaks), bytes);
    }
  }
  EXPECT_FALSE(most.refusal) << most.refusal->what();
}

// But for some numbers that a program keeps from one step to the next, which need not die at the same moment of each.
TEST_P(Programs, TakeWhatAPlanSaysWhenTheyFollowIt) {
  constexpr double kNumbers = 64;  // bytes
  ++tried_to_follow;
  const Program program = fresh();
  Session session(budget("85%"), {.planning = Planning::foreground});
  for (int i = 0; i < 6; ++i) {
    try {
      const Seen seen = go_on(program, &session, 1);
      if (!session.stats().followed_plan) continue;
      ++steps_followed;
      const auto predicted = static_cast<double>(session.plan()->peak_bytes), peak = static_cast<double>(seen.peaks[0]);
      EXPECT_GE(predicted, peak - kNumbers) << "in step " << i;
      EXPECT_LE(predicted, peak * (1 + GetParam().predicted_above) + kNumbers) << "in step " << i;
    } catch (const InfeasibleBudget&) {
      return;
    }
  }
}

// What an inner backward unpacks it has let go of long before the outer one, and plans know.
TEST(Maml, CanBePlannedFarBelowThePlainPeak) {
  RETRACE_SKIP_IF_HOSTILE();
  const Program program = maml();
  Session session(keep_all());
  {
    const auto step = session.step();
    program.step();
  }
  const std::string path = ::testing::TempDir() + "maml.tape";
  session.save_tape(path);
  const plan::Graph graph = plan::load_graph(path);
  std::remove(path.c_str());
  const int64_t half = plan::plain(graph).peak_bytes / 2;
  EXPECT_LT(plan::smallest(graph).peak_bytes, half);
  const plan::Answer answer = plan::solve(graph, half);
  ASSERT_TRUE(answer.plan);
  EXPECT_LT(answer.plan->replay_seconds, graph.seconds / 2);
}

INSTANTIATE_TEST_SUITE_P(All, Programs, ::testing::ValuesIn(all()), [](const auto& info) { return info.param.name; });

}  // namespace retrace::test::programs
