// Sessions under budgets: refusals, masks as bits, steps that change, break or nest.
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "plan/file.h"
#include "session/budget_steps.h"
#include "support/counting.h"
#include "support/hostile.h"
#include "support/operators.h"

namespace retrace::test::budgets {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;

// A chain of products whose backward needs every factor.
struct Chain {
  std::vector<Tensor> weights;
  explicit Chain(int layers = 8) {
    torch::manual_seed(3);
    for (int i = 0; i < layers; ++i) weights.push_back((torch::randn({64, 64}) * 0.1).requires_grad_());
  }
  Tensor input(int64_t rows = 64) const {
    torch::manual_seed(rows);
    return torch::randn({rows, 64});
  }
  Tensor loss(Tensor x) const {
    for (const Tensor& w : weights) x = x.mm(w).tanh().exp();
    return x.square().mean();
  }
  void clear() const {
    for (Tensor w : weights) w.mutable_grad() = Tensor();
  }
  std::string gradients() const {
    Tensors all;
    for (const Tensor& w : weights) all.push_back(w.grad());
    return bits_of(all);
  }
};

struct Plain {
  std::string gradients;
  int64_t peak_bytes = 0;
};

Plain plain_step(const Chain& chain, const std::function<void()>& step) {
  chain.clear();
  memory::reset_peak();
  step();
  const Plain plain{chain.gradients(), memory::peak_bytes()};
  chain.clear();
  return plain;
}

// One step; checks gradients and, with `budget_bytes`, the peak. The number of operators replayed.
int64_t good_step(const Chain& chain, Session& session, const Plain& plain, int64_t budget_bytes,
                  const std::function<void()>& work) {
  chain.clear();
  memory::reset_peak();
  {
    const auto step = session.step();
    work();
  }
  EXPECT_LE(memory::peak_bytes(), budget_bytes);
  EXPECT_TRUE(plain.gradients == chain.gradients());
  chain.clear();
  return session.stats().ops_replayed;
}

int64_t between(int64_t low, int64_t high, double share) {
  return low + static_cast<int64_t>(share * static_cast<double>(high - low));
}

// The smallest budget for `work`, as a refusal says.
int64_t smallest_for(const std::function<void()>& work) {
  Session session(budget(1));
  try {
    const auto step = session.step();
    work();
  } catch (const InfeasibleBudget& refusal) {
    return refusal.smallest_bytes;
  }
  ADD_FAILURE() << "a budget of one byte was not refused";
  return 0;
}

// ---- Refusals ----

TEST(Budget, OneThatCannotHoldIsRefusedByBackwardWithTheSmallestThatCan) {
  const Chain chain;
  const Tensor x = chain.input();
  const Plain plain = plain_step(chain, [&] { chain.loss(x).backward(); });
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
    EXPECT_LT(refusal.smallest_bytes, plain.peak_bytes);
    EXPECT_GT(refusal.smallest_bytes, 8 * kUnit) << "the weights alone take that";
  }
  EXPECT_TRUE(plain.gradients == chain.gradients()) << "the step that was refused had the right gradients";
  chain.clear();
  const auto again = [&] {
    const auto step = session.step();
    chain.loss(x).backward();
  };
  EXPECT_THROW(again(), InfeasibleBudget);
}

TEST(Budget, TheSmallestThatARefusalNamesWorksFromItsFirstStep) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  const int64_t smallest = smallest_for(work);
  Session session(budget(smallest));
  for (int i = 0; i < 4; ++i) EXPECT_GT(good_step(chain, session, plain, smallest, work), 0);
}

TEST(Budget, TheSmallestThatARefusalNamesIsEnoughToVerifyViewsToo) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] {
    Tensor h = x;
    for (const Tensor& w : chain.weights) h = torch::cat({h.mm(w).tanh(), h}, 1).slice(1, 0, 128, 2).exp().tanh();
    h.slice(1, 0, 64, 2).square().mean().backward();
  };
  const Plain plain = plain_step(chain, work);
  const int64_t smallest = smallest_for(work);
  chain.clear();
  Session session(budget(smallest), {.verify = Verify::always});
  for (int i = 0; i < 3; ++i) EXPECT_GT(good_step(chain, session, plain, smallest, work), 0);
  EXPECT_GT(session.stats().values_verified, 0);
}

// Nothing happens after the backward that would end its last window: what it took must be counted all the same.
TEST(Budget, TheSmallestThatARefusalNamesIsEnoughForAGraphThatIsRetained) {
  const Chain chain(1);
  const Tensor x = chain.input();
  const auto work = [&] { x.mm(chain.weights[0]).to(torch::kDouble).pow(3).sum().backward({}, /*retain_graph=*/true); };
  const Plain plain = plain_step(chain, work);
  const int64_t smallest = smallest_for(work);
  chain.clear();
  Session session(budget(smallest));
  for (int i = 0; i < 3; ++i) good_step(chain, session, plain, smallest, work);
}

TEST(Budget, AGraphThatDiesInForwardMakesRoom) {
  const Chain chain(2);
  const Tensor x = chain.input();
  const auto work = [&] {
    for (int i = 0; i < 6; ++i) chain.loss(x);
    chain.loss(x).backward();
  };
  const Plain plain = plain_step(chain, work);
  const int64_t smallest = smallest_for(work);
  chain.clear();
  Session session(budget(smallest));
  for (int i = 0; i < 3; ++i) good_step(chain, session, plain, smallest, work);
}

TEST(Budget, OfABestEffortRunsAtTheSmallest) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  const int64_t smallest = smallest_for(work);
  Session session(budget(1).best_effort());
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    good_step(chain, session, plain, smallest, work);
  }
  ASSERT_TRUE(session.plan());
  EXPECT_LE(session.plan()->peak_bytes, smallest);
}

TEST(Budget, OfABestEffortThatIsLargeEnoughIsTheBudget) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  Session session(budget(plain.peak_bytes + 1000).best_effort());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(good_step(chain, session, plain, plain.peak_bytes + 1000, work), 0);
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
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  Session session(budget(INT64_MAX));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(good_step(chain, session, plain, plain.peak_bytes, work), 0);
}

TEST(Budget, InPercentIsOfThePeakThatTheFirstStepHad) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  Session session(budget("90%"));
  EXPECT_EQ(good_step(chain, session, plain, plain.peak_bytes, work), 0);
  for (int i = 0; i < 3; ++i) EXPECT_GT(good_step(chain, session, plain, plain.peak_bytes * 91 / 100, work), 0);
  ASSERT_TRUE(session.plan());
  EXPECT_NEAR(static_cast<double>(session.plan()->budget_bytes), 0.9 * static_cast<double>(plain.peak_bytes),
              0.01 * static_cast<double>(plain.peak_bytes));
}

TEST(Budget, InPercentThatCannotHoldIsRefusedByTheSecondStep) {
  const Chain chain;
  const Tensor x = chain.input();
  Session session(budget("1%"));
  {
    const auto step = session.step();
    chain.loss(x).backward();
  }
  chain.clear();
  const auto second = [&] {
    const auto step = session.step();
    chain.loss(x).backward();
  };
  EXPECT_THROW(second(), InfeasibleBudget);
  const Plain plain = plain_step(chain, [&] { chain.loss(x).backward(); });
  Session effort(budget("1%").best_effort());
  for (int i = 0; i < 3; ++i) good_step(chain, effort, plain, plain.peak_bytes, [&] { chain.loss(x).backward(); });
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
  const auto work = [&] {
    torch::manual_seed(5);
    dropouts(x).backward();
  };
  memory::reset_peak();
  work();
  const int64_t plain_peak = memory::peak_bytes();
  const std::string plain = bits_of({x.grad()});
  x.mutable_grad() = Tensor();
  const int64_t smallest = smallest_for(work);
  x.mutable_grad() = Tensor();
  const int64_t bytes = between(smallest, plain_peak, 0.3);
  Session session(budget(bytes));
  for (int i = 0; i < 4; ++i) {
    memory::reset_peak();
    const auto step = session.step();
    work();
    EXPECT_LE(memory::peak_bytes(), bytes) << "in step " << i + 1;
    EXPECT_TRUE(plain == bits_of({x.grad()}));
    x.mutable_grad() = Tensor();
    if (i == 0) continue;
    ASSERT_TRUE(session.plan());
    EXPECT_GT(session.plan()->values_encoded, 0);
    EXPECT_GT(session.plan()->encoded_bytes, 0);
    EXPECT_LE(session.plan()->encoded_bytes * 30, session.plan()->encoded_plain_bytes);
  }
}

// ---- Steps that change ----

TEST(Budget, ShapesThatAlternateStayWithinItAndArePlannedOnce) {
  const Chain chain;
  const int64_t rows[] = {64, 160};
  Plain plain[2];
  int64_t bytes = 0;
  for (int k = 0; k < 2; ++k) {
    const auto work = [&] { chain.loss(chain.input(rows[k])).backward(); };
    plain[k] = plain_step(chain, work);
    bytes = std::max(bytes, between(smallest_for(work), plain[k].peak_bytes, 0.3));
    chain.clear();
  }
  Session session(budget(bytes));
  std::vector<double> planned[2];
  for (int i = 0; i < 14; ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    const int k = i % 2;
    good_step(chain, session, plain[k], bytes, [&] {
      chain.loss(chain.input(rows[k])).backward();
      if (session.plan()) planned[k].push_back(session.plan()->planning_seconds);
    });
  }
  // A plan is made anew once, when the times of its operators are known without the first step's noise.
  for (const auto& times : planned) {
    ASSERT_GE(times.size(), 5u);
    EXPECT_LE(std::set<double>(times.begin(), times.end()).size(), 3u) << "planned again and again";
    EXPECT_EQ(times[times.size() - 1], times[times.size() - 2]);
  }
}

TEST(Budget, HoldsWhileShapesNeverRepeatAndAreMoreThanASessionRemembers) {
  const Chain chain(3);
  const Tensor largest = chain.input(140);
  const Plain of_largest = plain_step(chain, [&] { chain.loss(largest).backward(); });
  const int64_t bytes = between(smallest_for([&] { chain.loss(largest).backward(); }), of_largest.peak_bytes, 0.2);
  chain.clear();
  Session session(budget(bytes));
  for (int64_t rows = 138; rows > 60; rows -= 2) {
    SCOPED_TRACE("rows " + std::to_string(rows));
    const Tensor x = chain.input(rows);
    const auto work = [&] { chain.loss(x).backward(); };
    const Plain plain = plain_step(chain, work);
    good_step(chain, session, plain, bytes, work);
  }
}

TEST(Budget, ABranchThatDiffersHalfWayStaysWithinItAndIsPlannedToo) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto branch = [&](bool other) {
    Tensor h = x;
    for (size_t i = 0; i < chain.weights.size(); ++i) {
      h = h.mm(chain.weights[i]).tanh();
      h = other && i >= 4 ? h.sigmoid().sin() : h.exp();
    }
    h.square().mean().backward();
  };
  Plain plain[2];
  int64_t bytes = 0;
  for (const bool other : {false, true}) {
    plain[other] = plain_step(chain, [&] { branch(other); });
    bytes = std::max(bytes, between(smallest_for([&] { branch(other); }), plain[other].peak_bytes, 0.3));
    chain.clear();
  }
  Session session(budget(bytes));
  for (const bool other : {false, true, false, true, true, false, false, true}) {
    good_step(chain, session, plain[other], bytes, [&] { branch(other); });
  }
}

TEST(Budget, AStepWithoutABackwardTeachesNothingAndHurtsNothing) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  const int64_t bytes = between(smallest_for(work), plain.peak_bytes, 0.4);
  chain.clear();
  Session session(budget(bytes));
  for (int i = 0; i < 3; ++i) {
    {
      const NothingLeaks nothing_leaks;
      memory::reset_peak();
      const auto step = session.step();
      chain.loss(x);
      EXPECT_LE(memory::peak_bytes(), bytes);
    }
    { const auto empty = session.step(); }
    good_step(chain, session, plain, bytes, work);
  }
}

TEST(Budget, TwoBackwardsThroughARetainedGraph) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] {
    const Tensor loss = chain.loss(x);
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
  };
  const Plain plain = plain_step(chain, work);
  const int64_t smallest = smallest_for([&] {
    const Tensor loss = chain.loss(x);
    try {
      loss.backward({}, true);
    } catch (const InfeasibleBudget&) {
    }
    loss.backward();
  });
  chain.clear();
  for (const double share : {0.0, 0.3, 0.7}) {
    SCOPED_TRACE(share);
    const int64_t bytes = between(smallest, plain.peak_bytes, share);
    Session session(budget(bytes));
    for (int i = 0; i < 4; ++i) good_step(chain, session, plain, bytes, work);
  }
}

TEST(Budget, TwoBackwardsOfTwoForwardsInOneStep) {
  const Chain chain;
  const Tensor x = chain.input(), y = chain.input(70);
  const auto work = [&] {
    chain.loss(x).backward();
    chain.loss(y).backward();
  };
  const Plain plain = plain_step(chain, work);
  Session session(budget(plain.peak_bytes * 9 / 10));
  for (int i = 0; i < 4; ++i) good_step(chain, session, plain, plain.peak_bytes * 9 / 10, work);
}

TEST(Budget, ABackwardOfABackward) {
  const Chain chain(4);
  const Tensor x = chain.input();
  const auto work = [&] {
    const Tensor loss = chain.loss(x);
    Tensor penalty = torch::zeros({});
    for (const Tensor& g : torch::autograd::grad({loss}, chain.weights, {}, true, true)) {
      penalty = penalty + g.square().sum();
    }
    (loss + penalty).backward();
  };
  const Plain plain = plain_step(chain, work);
  for (const int percent : {70, 80, 90, 100}) {
    SCOPED_TRACE(percent);
    const int64_t bytes = plain.peak_bytes * percent / 100;
    Session session(budget(bytes).best_effort());
    for (int i = 0; i < 4; ++i) good_step(chain, session, plain, std::max(bytes, plain.peak_bytes), work);
  }
}

// ---- Steps that break ----

TEST(Budget, AnExceptionInForwardOrBackwardLeavesNothingAndGoodStepsFollow) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  const int64_t bytes = between(smallest_for(work), plain.peak_bytes, 0.3);
  chain.clear();
  Session session(budget(bytes));
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE("round " + std::to_string(i + 1));
    {
      const NothingLeaks nothing_leaks;
      EXPECT_THROW(
          {
            const auto step = session.step();
            const Tensor loss = chain.loss(x);
            throw std::domain_error("in forward");
          },
          std::domain_error);
      EXPECT_THROW(
          {
            const auto step = session.step();
            Tensor h = x.mm(chain.weights[0]).tanh();
            h.register_hook([](const Tensor&) { throw std::domain_error("in backward"); });
            chain.loss(h).backward();
          },
          std::domain_error);
      chain.clear();
      torch::ones({}, torch::requires_grad()).clone().backward();  // the engine lets go of what it did not get to
    }
    good_step(chain, session, plain, bytes, work);
  }
}

TEST(Budget, ABackwardAfterItsStepHasEndedIsRight) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  const int64_t bytes = between(smallest_for(work), plain.peak_bytes, 0.3);
  chain.clear();
  Session session(budget(bytes));
  for (int i = 0; i < 4; ++i) {
    Tensor loss;
    {
      memory::reset_peak();
      const auto step = session.step();
      loss = chain.loss(x);
      EXPECT_LE(memory::peak_bytes(), bytes);
    }
    loss.backward();
    EXPECT_TRUE(plain.gradients == chain.gradients());
    loss.reset();
    chain.clear();
    if (i % 2 == 1) good_step(chain, session, plain, bytes, work);
  }
}

// ---- Steps around others ----

TEST(Budget, GovernsCheckpointsAndStepsInsideIt) {
  const Chain chain;
  const Tensor x = chain.input();
  Session keeping(keep_all());
  const auto half = [&](Tensor h, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) h = h.mm(chain.weights[i]).tanh().exp();
    return h;
  };
  const auto with_checkpoint = [&] {
    half(checkpoint([&](const Tensor& t) { return half(t, 0, 4); }, x), 4, 8).square().mean().backward();
  };
  const auto with_step = [&] {
    Tensor h = x;
    {
      const auto inner = keeping.step();
      h = half(h, 0, 4);
    }
    half(h, 4, 8).square().mean().backward();
  };
  const auto inside_a_step = [&] {
    const auto inner = keeping.step();
    half(x, 0, 8).square().mean().backward();
  };
  const Plain plain = plain_step(chain, [&] { half(x, 0, 8).square().mean().backward(); });
  for (const std::function<void()>& work : {std::function<void()>(with_checkpoint), std::function<void()>(with_step),
                                            std::function<void()>(inside_a_step)}) {
    const int64_t smallest = smallest_for(work);
    chain.clear();
    for (const double share : {0.0, 0.4, 1.0}) {
      SCOPED_TRACE(share);
      const int64_t bytes = between(smallest, plain.peak_bytes, share);
      Session session(budget(bytes));
      for (int i = 0; i < 3; ++i) good_step(chain, session, plain, bytes, work);
    }
  }
}

TEST(Budget, TwoThreadsEachUnderOneTrainAsTheyWouldAlone) {
  std::string results[2];
  const Chain reference;
  const Plain plain = plain_step(reference, [&] { reference.loss(reference.input()).backward(); });
  const auto train = [&](int k) {
    const Chain& own = reference;
    std::vector<Tensor> weights;
    for (const Tensor& w : own.weights) weights.push_back(w.detach().clone().requires_grad_());
    const Tensor x = own.input();
    Session session(budget(memory::live_bytes() + 12 * kUnit).best_effort());
    for (int i = 0; i < 5; ++i) {
      const auto step = session.step();
      Tensor h = x;
      for (Tensor& w : weights) {
        w.mutable_grad() = Tensor();
        h = h.mm(w).tanh().exp();
      }
      h.square().mean().backward();
    }
    Tensors gradients;
    for (const Tensor& w : weights) gradients.push_back(w.grad());
    results[k] = bits_of(gradients);
  };
  std::thread first(train, 0), second(train, 1);
  first.join();
  second.join();
  EXPECT_TRUE(plain.gradients == results[0]);
  EXPECT_TRUE(plain.gradients == results[1]);
}

TEST(Budget, ASessionMayMoveToAnotherThreadBetweenSteps) {
  const Chain chain;
  const Tensor x = chain.input();
  const auto work = [&] { chain.loss(x).backward(); };
  const Plain plain = plain_step(chain, work);
  const int64_t bytes = between(smallest_for(work), plain.peak_bytes, 0.3);
  chain.clear();
  Session session(budget(bytes));
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { good_step(chain, session, plain, bytes, work); }).join();
  }
}

// ---- Tapes ----

TEST(Budget, ATapeCanBeSavedAfterAStepAndNotBefore) {
  const Chain chain;
  Session session(budget("1GiB"));
  const std::string path =
      (std::filesystem::temp_directory_path() / ("retrace_tape_" + std::to_string(::getpid()))).string();
  try {
    session.save_tape(path);
    FAIL() << "nothing was thrown";
  } catch (const UsageError& e) {
    EXPECT_EQ(std::string(e.what()).rfind("[Session::save_tape]", 0), 0u) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    const auto step = session.step();
    chain.loss(chain.input()).backward();
  }
  session.save_tape(path);
  const plan::Graph graph = plan::load_graph(path);
  std::filesystem::remove(path);
  EXPECT_NO_THROW(plan::check(graph));
  EXPECT_GE(graph.ops.size(), 26u);
  EXPECT_EQ(graph.weight_bytes, 8 * kUnit);
  EXPECT_THROW(session.save_tape("/nowhere/at/all"), UsageError);
  chain.clear();
}

}  // namespace retrace::test::budgets
