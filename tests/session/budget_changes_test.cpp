// Steps under budgets that change from one to the next, break, nest or move to other threads.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <thread>

#include "plan/file/file.h"
#include "session/chain.h"
#include "support/counting.h"

namespace retrace::test::budget_changes {

using torch::Tensor;

// ---- Steps that change ----

TEST(BudgetChanges, ShapesThatAlternateStayWithinItAndArePlannedOnce) {
  const Chain chain;
  const Session* open = nullptr;
  std::vector<double> planned[2];
  const auto work_on = [&](int k, int64_t rows) {
    return Work(chain, [&, k, rows] {
      chain.loss(chain.input(rows)).backward();
      if (open && open->plan()) planned[k].push_back(open->plan()->planning_seconds);
    });
  };
  const Work works[] = {work_on(0, 64), work_on(1, 160)};
  const int64_t bytes = std::max(works[0].between(0.3), works[1].between(0.3));
  Session session(budget(bytes), {.planning = Planning::foreground});
  open = &session;
  for (int i = 0; i < 14; ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    works[i % 2].step(session, bytes);
  }
  // A plan is made anew once, when the times of its operators are known without the first step's noise.
  for (const auto& times : planned) {
    ASSERT_GE(times.size(), 5u);
    EXPECT_LE(std::set<double>(times.begin(), times.end()).size(), 3u) << "planned again and again";
    EXPECT_EQ(times[times.size() - 1], times[times.size() - 2]);
  }
}

TEST(BudgetChanges, HoldsWhileShapesNeverRepeatAndAreMoreThanASessionRemembers) {
  const Chain chain(3);
  const Tensor largest = chain.input(140);
  const int64_t bytes = Work(chain, [&] { chain.loss(largest).backward(); }).between(0.2);
  Session session(budget(bytes));
  for (int64_t rows = 138; rows > 60; rows -= 2) {
    SCOPED_TRACE("rows " + std::to_string(rows));
    const Tensor x = chain.input(rows);
    Work(chain, [&] { chain.loss(x).backward(); }).step(session, bytes);
  }
}

TEST(BudgetChanges, ABranchThatDiffersHalfWayStaysWithinItAndIsPlannedToo) {
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
  const Work works[] = {{chain, [&] { branch(false); }}, {chain, [&] { branch(true); }}};
  const int64_t bytes = std::max(works[0].between(0.3), works[1].between(0.3));
  Session session(budget(bytes));
  for (const bool other : {false, true, false, true, true, false, false, true}) works[other].step(session, bytes);
}

// What those before read first, their plan leaves to the program.
TEST(BudgetChanges, AStepThatBeginsInAnotherWayIsNotJudgedByThePlanOfThoseBefore) {
  const Chain small(1), large;
  const Tensor x = large.input();
  small.loss(x).backward();
  const Work work(large, [&] { large.loss(x).backward(); });
  const int64_t bytes = work.smallest();
  Session session(budget(bytes), {.planning = Planning::foreground});
  for (int i = 0; i < 4; ++i) {
    const auto step = session.step();
    small.weights[0].mutable_grad().zero_();
    small.loss(x).backward();
  }
  ASSERT_TRUE(session.stats().followed_plan);
  work.step(session, bytes);
}

TEST(BudgetChanges, AStepThatEndsBeforeItsPlanDoesHasNotFollowedIt) {
  const Chain chain;
  const Tensor x = chain.input();
  bool has_end = true;
  const Work work(chain, [&] {
    chain.loss(x).backward();
    if (has_end) x.sin();
  });
  const int64_t bytes = work.between(0.4);
  Session session(budget(bytes), {.planning = Planning::foreground});
  for (int i = 0; i < 3; ++i) work.step(session, bytes);
  EXPECT_TRUE(session.stats().followed_plan);
  EXPECT_TRUE(session.plan());
  has_end = false;
  work.step(session, bytes);
  EXPECT_FALSE(session.stats().followed_plan);
  EXPECT_EQ(session.stats().why_no_plan, "it is the first of its kind");
}

TEST(BudgetChanges, AStepWithoutABackwardTeachesNothingAndHurtsNothing) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t bytes = work.between(0.4);
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
    work.step(session, bytes);
  }
}

TEST(BudgetChanges, TwoBackwardsThroughARetainedGraph) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] {
    const Tensor loss = chain.loss(x);
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
  });
  // Of both: the first alone would refuse.
  const int64_t smallest = Work::smallest_of([&] {
    const Tensor loss = chain.loss(x);
    try {
      loss.backward({}, true);
    } catch (const InfeasibleBudget&) {
    }
    loss.backward();
  });
  chain.clear();
  for (const int percent : {0, 30, 70}) work.steps(smallest + (work.plain_peak() - smallest) * percent / 100, 4);
}

TEST(BudgetChanges, TwoBackwardsOfTwoForwardsInOneStep) {
  const Chain chain;
  const Tensor x = chain.input(), y = chain.input(70);
  const Work work(chain, [&] {
    chain.loss(x).backward();
    chain.loss(y).backward();
  });
  work.steps(work.plain_peak() * 9 / 10, 4);
}

TEST(BudgetChanges, ABackwardOfABackward) {
  const Chain chain(4);
  const Tensor x = chain.input();
  const Work work(chain, [&] {
    const Tensor loss = chain.loss(x);
    Tensor penalty = torch::zeros({});
    for (const Tensor& g : torch::autograd::grad({loss}, chain.weights, {}, true, true)) {
      penalty = penalty + g.square().sum();
    }
    (loss + penalty).backward();
  });
  for (const int percent : {70, 80, 90, 100}) {
    SCOPED_TRACE(percent);
    Session session(budget(work.plain_peak() * percent / 100).best_effort());
    for (int i = 0; i < 4; ++i) work.step(session, work.plain_peak());
  }
}

// ---- Steps that break ----

TEST(BudgetChanges, AnExceptionInForwardOrBackwardLeavesNothingAndGoodStepsFollow) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t bytes = work.between(0.3);
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
    work.step(session, bytes);
  }
}

int64_t unpacks_on_tape(const Session& session) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("retrace_broken_" + std::to_string(::getpid()))).string();
  session.save_tape(path);
  const plan::Graph graph = plan::load_graph(path);
  std::filesystem::remove(path);
  return std::count_if(graph.events.begin(), graph.events.end(),
                       [](const plan::Event& e) { return e.kind == plan::EventKind::unpack; });
}

// Its forward is that of the whole step: taken for one, it would be one with hardly any backward.
TEST(BudgetChanges, AStepThatBreaksInBackwardTeachesNothing) {
  const Chain chain;
  const Tensor x = chain.input();
  bool breaks = false;
  const Work work(chain, [&] {
    const Tensor loss = chain.loss(x);
    loss.register_hook([&](const Tensor&) {
      if (breaks) throw std::domain_error("in backward");
    });
    (loss * 2).backward();
  });
  const int64_t bytes = work.between(0.3);
  Session session(budget(bytes));
  for (int i = 0; i < 2; ++i) work.step(session, bytes);
  const int64_t unpacks = unpacks_on_tape(session);
  EXPECT_GT(unpacks, 8);
  breaks = true;
  EXPECT_THROW(work.step(session, bytes), std::domain_error);
  breaks = false;
  EXPECT_EQ(unpacks_on_tape(session), unpacks);
  chain.clear();
  torch::ones({}, torch::requires_grad()).clone().backward();  // the engine lets go of what it did not get to
  work.step(session, bytes);
}

TEST(BudgetChanges, ABackwardAfterItsStepHasEndedIsRight) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t bytes = work.between(0.3);
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
    EXPECT_TRUE(work.gradients() == chain.gradients());
    loss.reset();
    chain.clear();
    if (i % 2 == 1) work.step(session, bytes);
  }
}

// ---- Steps around others ----

TEST(BudgetChanges, GovernsCheckpointsAndStepsInsideIt) {
  const Chain chain;
  const Tensor x = chain.input();
  Session keeping(keep_all());
  const auto half = [&](Tensor h, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) h = h.mm(chain.weights[i]).tanh().exp();
    return h;
  };
  const std::function<void()> insides[] = {
      [&] { half(checkpoint([&](const Tensor& t) { return half(t, 0, 4); }, x), 4, 8).square().mean().backward(); },
      [&] {
        Tensor h = x;
        {
          const auto inner = keeping.step();
          h = half(h, 0, 4);
        }
        half(h, 4, 8).square().mean().backward();
      },
      [&] {
        const auto inner = keeping.step();
        half(x, 0, 8).square().mean().backward();
      },
  };
  const Work plain(chain, [&] { half(x, 0, 8).square().mean().backward(); });
  for (const auto& inside : insides) {
    const Work work(chain, inside);
    EXPECT_TRUE(work.gradients() == plain.gradients());
    const int64_t smallest = work.smallest();
    for (const int percent : {0, 40, 100}) work.steps(smallest + (plain.plain_peak() - smallest) * percent / 100, 3);
  }
}

TEST(BudgetChanges, TwoThreadsEachUnderOneTrainAsTheyWouldAlone) {
  std::string results[2];
  const Chain reference;
  const Tensor x = reference.input();  // drawn once: threads share the generator
  const Work work(reference, [&] { reference.loss(x).backward(); });
  const auto train = [&](int k) {
    std::vector<Tensor> weights;
    for (const Tensor& w : reference.weights) weights.push_back(w.detach().clone().requires_grad_());
    Session session(budget(memory::live_bytes() + 12 * Chain::kUnit).best_effort());
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
  EXPECT_TRUE(work.gradients() == results[0]);
  EXPECT_TRUE(work.gradients() == results[1]);
}

TEST(BudgetChanges, ASessionMayMoveToAnotherThreadBetweenSteps) {
  const Chain chain;
  const Tensor x = chain.input();
  const Work work(chain, [&] { chain.loss(x).backward(); });
  const int64_t bytes = work.between(0.3);
  Session session(budget(bytes));
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { work.step(session, bytes); }).join();
  }
}

}  // namespace retrace::test::budget_changes
