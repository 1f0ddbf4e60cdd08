// Sessions under budgets: what is refused, what a budget counts, masks as bits, updates, tapes.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "plan/file/file.h"
#include "session/chain.h"
#include "support/hostile.h"

namespace retrace::test::budgets {

using torch::Tensor;

constexpr int64_t kUnit = Chain::kUnit;

// ---- Refusals ----

TEST(Budget, OneThatCannotHoldIsRefusedByBackwardWithTheSmallestThatCan) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  Session session(budget(1000));
  try {
    const auto step = session.step();
    Tensor loss = chain.loss(x);
    loss.backward();
    FAIL() << "nothing was thrown";
  } catch (const InfeasibleBudget& refusal) {
    const std::string text = refusal.what();
    EXPECT_EQ(text.rfind("[budget]", 0), 0u) << text;
    for (const std::string& part : {std::string("1000"), std::to_string(refusal.smallest_bytes), std::string("weights"),
                                    std::string("gradients"), std::string("best_effort()")}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_LT(refusal.smallest_bytes, work.plain_peak());
    EXPECT_GT(refusal.smallest_bytes, 8 * kUnit) << "the weights alone take that";
  }
  EXPECT_TRUE(work.gradients() == chain.gradients()) << "the step that was refused had the right gradients";
  chain.clear();
  EXPECT_THROW(work.step(session, INT64_MAX), InfeasibleBudget);
}

TEST(Budget, TheSmallestThatARefusalNamesWorksFromItsFirstStep) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  for (const int64_t replayed : work.steps(work.smallest(), 4)) EXPECT_GT(replayed, 0);
}

TEST(Budget, GovernsWhatIsInACheckpointOfItsStepWhateverThatOnesPolicy) {
  RETRACE_SKIP_IF_HOSTILE();
  const Chain chain;
  const Tensor x = chain.input();
  const Work plain(chain, [&] { chain.loss(x).backward(); });
  const int64_t budget_bytes = (plain.smallest() + plain.plain_peak()) / 2;
  for (const Policy& policy : {every(1), recompute_all(), keep_all(), selective()}) {
    chain.clear();
    Session session(budget(budget_bytes), {.planning = Planning::foreground});
    int64_t peak_bytes = 0;
    for (int i = 0; i < 3; ++i) {
      chain.clear();
      memory::reset_peak();
      const auto step = session.step();
      checkpoint(
          {.policy = policy}, [&](const Tensor& t) { return chain.loss(t); }, x)
          .backward();
      peak_bytes = memory::peak_bytes();
    }
    ASSERT_TRUE(session.plan());
    EXPECT_EQ(session.plan()->peak_bytes, peak_bytes);
    EXPECT_TRUE(plain.gradients() == chain.gradients());
  }
}

TEST(Budget, HoldsInABackwardThatRunsAfterItsStepAndItsSession) {
  RETRACE_SKIP_IF_HOSTILE();
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  for (const int64_t budget_bytes : {work.smallest(), (work.smallest() + work.plain_peak()) / 2}) {
    for (const bool session_lives : {true, false}) {
      chain.clear();
      memory::reset_peak();
      std::optional<Session> session(budget(budget_bytes));
      Tensor loss;
      {
        const auto step = session->step();
        loss = chain.loss(x);
      }
      if (!session_lives) session.reset();
      loss.backward();
      EXPECT_LE(memory::peak_bytes(), budget_bytes);
      EXPECT_TRUE(work.gradients() == chain.gradients());
    }
  }
}

// Nothing happens after the backward that would end its last window: what it took must be counted all the same.
TEST(Budget, TheSmallestThatARefusalNamesIsEnoughForAGraphThatIsRetained) {
  const Chain chain(1);
  const Tensor x = chain.input();
  const Work work(chain,
                  [&] { x.mm(chain.weights[0]).to(torch::kDouble).pow(3).sum().backward({}, /*retain_graph=*/true); });
  work.steps(work.smallest(), 3);
}

// When memory first runs short, the cheapest are remembered. Later the program lets go of something far cheaper. What
// is cheap is measured: an operator that was interrupted is not, so the best of several steps counts, each the first of
// its session.
TEST(Budget, LetsGoOfWhatTheProgramHadInHandWhenMemoryFirstRanShort) {
  RETRACE_SKIP_IF_HOSTILE();
  constexpr int64_t kNumbers = 1 << 18, kBytes = 4 * kNumbers;
  constexpr int kOperators = 30, kSteps = 10;
  const Tensor w = torch::rand({kNumbers}).requires_grad_();
  const auto expensive = [&] {
    Tensor y = w;
    for (int i = 0; i < kOperators; ++i) y = y + 1e-3;
    return y.exp().sum();
  };
  int64_t fewest = INT64_MAX;
  for (int i = 0; i < kSteps; ++i) {
    w.mutable_grad() = Tensor();
    Session session(budget(memory::live_bytes() + 6 * kBytes + kBytes / 2));
    {
      const auto step = session.step();
      Tensor sum = w.exp().sum(), in_hand = w.exp();
      sum = sum + in_hand.sum();
      for (int j = 0; j < 4; ++j) sum = sum + expensive();  // the last is too much
      in_hand = Tensor();
      (sum + expensive()).backward();
    }
    fewest = std::min(fewest, session.stats().ops_replayed);
  }
  EXPECT_GT(fewest, 0);
  EXPECT_LT(fewest, kOperators);
}

TEST(Budget, AGraphThatDiesInForwardMakesRoom) {
  const Chain chain(2);
  const Tensor x = chain.input();
  const Work work(chain, [&] {
    for (int i = 0; i < 6; ++i) chain.loss(x);
    chain.loss(x).backward();
  });
  work.steps(work.smallest(), 3);
}

TEST(Budget, OfABestEffortRunsAtTheSmallest) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t smallest = work.smallest();
  Session session(budget(1).best_effort());
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    work.step(session, smallest);
  }
  ASSERT_TRUE(session.plan());
  EXPECT_LE(session.plan()->peak_bytes, smallest);
}

// A step of a few milliseconds, in which plans take longer than they could save.
TEST(Budget, OfABestEffortIsABearableOneForASmallStepToo) {
  const Chain chain(32);
  const Tensor x = chain.input(256);
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t smallest = work.smallest(), live_bytes = memory::live_bytes();
  Session session(budget(1).best_effort());
  for (int i = 0; i < 4; ++i) work.step(session, work.plain_peak());
  const int64_t replayed = work.step(session, smallest + (work.plain_peak() - smallest) / 4);
  EXPECT_GT(replayed, 0);
  // Rebuilt each time, it would be thirty times as many as there are. What is chosen hangs on measured times.
  EXPECT_LT(replayed, 10 * 3 * 32);
  EXPECT_EQ(memory::live_bytes(), live_bytes);
}

TEST(Budget, OfABestEffortThatIsLargeEnoughIsTheBudget) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t bytes = work.plain_peak() + 1000;
  Session session(budget(bytes).best_effort());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(work.step(session, bytes), 0);
}

TEST(Budget, BelowTheWeightsIsRefusedWithMoreThanTheWeights) {
  const Chain chain;
  const Tensor x = chain.input();
  Session session(budget(4 * kUnit));
  try {
    const auto step = session.step();
    chain.loss(x).backward();
    FAIL() << "nothing was thrown";
  } catch (const InfeasibleBudget& refusal) {
    EXPECT_GT(refusal.smallest_bytes, 16 * kUnit) << "weights and gradients";
    EXPECT_NE(std::string(refusal.what()).find("weights " + std::to_string(8 * kUnit)), std::string::npos)
        << refusal.what();
  }
  chain.clear();
}

TEST(Budget, LargerThanTheMachineReplaysNothing) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  Session session(budget(INT64_MAX));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(work.step(session, work.plain_peak()), 0);
}

TEST(Budget, InPercentIsOfThePeakThatTheFirstStepHad) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  Session session(budget("90%"));
  EXPECT_EQ(work.step(session, work.plain_peak()), 0);
  for (int i = 0; i < 3; ++i) EXPECT_GT(work.step(session, work.plain_peak() * 91 / 100), 0);
  ASSERT_TRUE(session.plan());
  EXPECT_NEAR(static_cast<double>(session.plan()->budget_bytes), 0.9 * static_cast<double>(work.plain_peak()),
              0.01 * static_cast<double>(work.plain_peak()));
}

// Of five steps; without a session those of the plain program. The first makes state before all else, so that the
// others are of another kind, and the first of those goes by eviction.
std::vector<int64_t> peaks_of_steps(const std::function<void()>& run, Session* session) {
  std::vector<int64_t> peaks;
  Tensor state;
  for (int i = 0; i < 5; ++i) {
    memory::reset_peak();
    {
      const auto step = session ? session->step() : Step();
      if (i == 0) state = torch::ones({Chain::kUnit / 4});
      run();
    }
    peaks.push_back(memory::peak_bytes());
  }
  return peaks;
}

void expect_within_80_percent(const std::function<void()>& run, const std::function<void()>& clear) {
  const auto plain = peaks_of_steps(run, nullptr);
  clear();
  Session session(budget("80%"));
  const auto ours = peaks_of_steps(run, &session);
  const auto most = static_cast<double>(*std::max_element(plain.begin(), plain.end()));
  EXPECT_EQ(ours[0], plain[0]);
  for (size_t i = 1; i < ours.size(); ++i) EXPECT_LE(static_cast<double>(ours[i]), 0.8 * most) << "in step " << i + 1;
}

// Of two models, one forgets its gradients when a step begins, the other after it was used once.
TEST(Budget, InPercentKnowsOfOldGradientsHowManyStay) {
  const Chain first(4), second(4);
  const Tensor x = first.input();
  const auto run = [&] {
    first.clear();
    second.loss(first.loss(x) * x).backward();
    second.clear();
    second.loss(x).backward();
  };
  expect_within_80_percent(run, [&] {
    first.clear();
    second.clear();
  });
}

// An operator has read them, so the tape has them for longer than the plain program.
TEST(Budget, InPercentDoesNotCountOldGradientsThatOnlyTheTapeHolds) {
  const Chain chain(4);
  const Tensor x = chain.input(160);
  const auto run = [&] {
    Tensors directions;
    for (int evaluation = 0; evaluation < 4; ++evaluation) {
      chain.clear();
      chain.loss(x).backward();
      const torch::NoGradGuard no_grad;
      Tensors gradients;
      for (const Tensor& w : chain.weights) gradients.push_back(w.grad().view(-1));
      directions.push_back(torch::cat(gradients));
    }
  };
  expect_within_80_percent(run, [&] { chain.clear(); });
}

TEST(Budget, InPercentThatCannotHoldIsRefusedByTheSecondStep) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  Session session(budget("1%"));
  work.step(session, work.plain_peak());
  EXPECT_THROW(work.step(session, INT64_MAX), InfeasibleBudget);
  Session effort(budget("1%").best_effort());
  for (int i = 0; i < 3; ++i) work.step(effort, work.plain_peak());
}

TEST(Budget, ThatBreaksAfterBackwardIsRefusedByTheNextStepOnce) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  Session session(budget(work.plain_peak()));
  {
    const auto step = session.step();
    chain.loss(x).backward();
    torch::zeros({work.plain_peak()});
  }
  chain.clear();
  try {
    const auto step = session.step();
    FAIL() << "nothing was thrown";
  } catch (const InfeasibleBudget& refusal) {
    EXPECT_GT(refusal.smallest_bytes, 4 * work.plain_peak());
  }
  for (int i = 0; i < 2; ++i) work.step(session, work.plain_peak());
}

TEST(Budget, AStepInsideACheckpointOrAnotherStepIsRefused) {
  const Chain chain;
  const Tensor x = chain.input();
  Session session(budget("1GiB")), other(keep_all());
  EXPECT_THROW(checkpoint([&] {
                 const auto step = session.step();
                 return chain.loss(x);
               }),
               UsageError);
  {
    const auto outer = other.step();
    EXPECT_THROW({ const auto step = session.step(); }, UsageError);
  }
  const auto step = session.step();
  EXPECT_EQ(session.stats().steps, 1);
}

// ---- Masks ----

Tensor dropouts(Tensor x) {
  for (int i = 0; i < 6; ++i) x = torch::dropout(x, 0.3, true) * 1.01;
  return x.sum();
}

TEST(Budget, HoldsTheMasksOfDropoutsAsBits) {
  const auto x = torch::randn({256, 256}).requires_grad_();
  Chain chain(0);
  chain.weights = {x};
  const Work work(chain, [&] {
    torch::manual_seed(5);
    dropouts(x).backward();
  });
  const int64_t bytes = work.between(0.3);
  Session session(budget(bytes));
  for (int i = 0; i < 4; ++i) {
    work.step(session, bytes);
    if (i == 0) continue;
    ASSERT_TRUE(session.plan());
    EXPECT_GT(session.plan()->values_encoded, 0);
    EXPECT_GT(session.plan()->encoded_bytes, 0);
    EXPECT_LE(session.plan()->encoded_bytes * 30, session.plan()->encoded_plain_bytes);
  }
}

// ---- Updates ----

TEST(Budget, AnUpdateOfWeightsAfterBackwardCopiesNone) {
  const Chain chain(64);
  const Tensor x = chain.input(1);
  Session session(budget("1GiB"));
  for (int i = 0; i < 3; ++i) {
    const auto step = session.step();
    chain.loss(x).backward();
    const int64_t before = memory::live_bytes();
    memory::reset_peak();
    const torch::NoGradGuard no_grad;
    for (Tensor w : chain.weights) w.add_(w.grad(), -0.01);
    EXPECT_EQ(memory::peak_bytes(), before) << "in step " << i + 1;
    for (Tensor w : chain.weights) w.mutable_grad().zero_();
    EXPECT_EQ(memory::peak_bytes(), before) << "in step " << i + 1;
  }
  chain.clear();
}

// In the middle of forward a copy must be made: what comes before is rebuilt from the old content.
TEST(Budget, AnUpdateInTheMiddleOfForwardIsRight) {
  const Chain chain(4);
  const Tensor x = chain.input();
  const auto buffer = torch::ones({64, 64});
  const Work work(chain, [&] {
    Tensor h = x;
    {
      const torch::NoGradGuard no_grad;
      buffer.fill_(1);
    }
    for (const Tensor& w : chain.weights) {
      h = (h.mm(w) * buffer.sin()).tanh().exp();
      const torch::NoGradGuard no_grad;
      buffer.mul_(0.9);
    }
    h.square().mean().backward();
  });
  const int64_t smallest = work.smallest();
  for (const int64_t bytes : {smallest, std::max(smallest, work.plain_peak() * 95 / 100)}) work.steps(bytes, 3);
}

// ---- Tapes ----

std::string tape_path() {
  return (std::filesystem::temp_directory_path() / ("retrace_tape_" + std::to_string(::getpid()))).string();
}

plan::Graph saved_tape(const Session& session) {
  session.save_tape(tape_path());
  plan::Graph graph = plan::load_graph(tape_path());
  std::filesystem::remove(tape_path());
  return graph;
}

TEST(Budget, ATapeCanBeSavedAfterAStepAndNotBefore) {
  const Chain chain;
  Session session(budget("1GiB"));
  try {
    session.save_tape(tape_path());
    FAIL() << "nothing was thrown";
  } catch (const UsageError& e) {
    EXPECT_EQ(std::string(e.what()).rfind("[Session::save_tape]", 0), 0u) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(tape_path()));
  {
    const auto step = session.step();
    chain.loss(chain.input()).backward();
  }
  const plan::Graph graph = saved_tape(session);
  EXPECT_NO_THROW(plan::check(graph));
  EXPECT_GE(graph.ops.size(), 26u);
  EXPECT_EQ(graph.weight_bytes, 8 * kUnit);
  EXPECT_THROW(session.save_tape("/nowhere/at/all"), UsageError);
  chain.clear();
}

// Only a step without a plan looks for encodings.
TEST(Budget, ATapeSavedAfterSeveralStepsStillSaysWhatCanBeEncoded) {
  const auto x = torch::randn({256, 256}).requires_grad_();
  Session session(budget("1GiB"));
  for (int i = 0; i < 4; ++i) {
    const auto step = session.step();
    dropouts(x).backward();
    x.mutable_grad() = Tensor();
  }
  const plan::Graph graph = saved_tape(session);
  const auto encodable =
      std::count_if(graph.values.begin(), graph.values.end(), [](const plan::Value& v) { return !v.ways.empty(); });
  EXPECT_GE(encodable, 6) << "a mask per dropout";
}

}  // namespace retrace::test::budgets
