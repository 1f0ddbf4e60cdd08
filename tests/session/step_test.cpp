// Steps: what they record, how they nest, when they end.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <optional>
#include <thread>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/run.h"

namespace retrace::test::steps {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;
Tensor six_sines(Tensor t) {
  for (int i = 0; i < 6; ++i) t = t.sin();
  return t;
}

TEST(Step, TrainingStepsEqualThePlainOnes) {
  const auto train = [](const std::optional<Policy>& policy) {
    torch::manual_seed(1);
    torch::nn::Sequential net(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::BatchNorm1d(16),
                              torch::nn::Dropout(0.2), torch::nn::Linear(16, 1));
    torch::optim::Adam optimizer(net->parameters(), 0.01);
    std::optional<Session> session;
    if (policy) session.emplace(*policy);
    Tensors results;
    for (int i = 0; i < 5; ++i) {
      const auto run = [&] {
        optimizer.zero_grad();
        auto loss = net->forward(torch::randn({8, 6})).square().mean();
        loss.backward();
        optimizer.step();
        results.push_back(loss.detach());
      };
      if (session) {
        const auto step = session->step();
        run();
      } else {
        run();
      }
    }
    for (auto& p : net->parameters()) results.push_back(p.detach());
    for (auto& b : net->buffers()) results.push_back(b);
    results.push_back(generator_state());
    return results;
  };
  const auto plain = train(std::nullopt);
  for (const auto& policy : {keep_all(), recompute_all(), every(1), every(3), selective()}) {
    SCOPED_TRACE(policy.name());
    EXPECT_SAME_BITS(plain, train(policy));
  }
}

TEST(Step, StatsAreThoseOfTheLatestStepAndStepsCountsAll) {
  Session session(recompute_all());
  EXPECT_EQ(session.stats().steps, 0);
  auto x = torch::randn({4}).requires_grad_();
  for (int i = 1; i <= 3; ++i) {
    const auto step = session.step();
    EXPECT_EQ(session.stats().steps, i);
    EXPECT_EQ(session.stats().ops_recorded, 0);
    auto loss = six_sines(x).sum();
    EXPECT_EQ(session.stats().ops_recorded, 7);
    EXPECT_EQ(session.stats().saved_tensors, 6);
    EXPECT_EQ(session.stats().dropped_tensors, 5);
    EXPECT_EQ(session.stats().ops_replayed, 0);
    loss.backward();
    EXPECT_GE(session.stats().ops_replayed, 5);
    EXPECT_GE(session.stats().replay_seconds, 0);
    EXPECT_GT(session.stats().tape_bytes, 0);
  }
}

TEST(Step, SessionStatsAreWhatTheProcessGained) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  const StatsDelta delta;
  {
    const auto step = session.step();
    six_sines(x).sum().backward();
  }
  const Stats stats = session.stats();
  EXPECT_EQ(delta.steps(), 1);
  EXPECT_EQ(delta.recorded(), stats.ops_recorded);
  EXPECT_EQ(delta.replayed(), stats.ops_replayed);
  EXPECT_EQ(delta.saved(), stats.saved_tensors);
  EXPECT_EQ(delta.dropped(), stats.dropped_tensors);
  EXPECT_EQ(delta.verified(), stats.values_verified);
}

TEST(Step, BackwardsOwnOperatorsAreNotRecordedUnlessTheyMakeAGraph) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  const auto step = session.step();
  auto loss = x.sin().exp().sum();
  const auto one = torch::ones({});
  const auto forward = session.stats().ops_recorded;
  torch::autograd::grad({loss}, {x}, {one}, true);
  EXPECT_EQ(session.stats().ops_recorded, forward);
  torch::autograd::grad({loss}, {x}, {one}, true, true);
  EXPECT_GT(session.stats().ops_recorded, forward);
}

TEST(Step, BackwardAfterTheStepEndedStillWorks) {
  torch::manual_seed(1);
  auto x = torch::randn({4}).requires_grad_();
  const NothingLeaks nothing_leaks;
  Tensor loss;
  std::optional<Session> session(recompute_all());
  {
    const auto step = session->step();
    loss = torch::dropout(six_sines(x), 0.5, true).exp().sum();
  }
  auto g = torch::autograd::grad({loss}, {x}, {}, true)[0];
  EXPECT_GT(session->stats().ops_replayed, 0) << "what happens later still counts for its step";
  session.reset();
  EXPECT_SAME_BITS(g, torch::autograd::grad({loss}, {x})[0]);
}

TEST(Step, BackwardOfAnEarlierStepInsideALaterOne) {
  auto x = torch::randn({4}).requires_grad_();
  auto plain = torch::autograd::grad({six_sines(x).exp().sum()}, {x})[0];
  Session session(recompute_all());
  Tensor earlier;
  {
    const auto step = session.step();
    earlier = six_sines(x).exp().sum();
  }
  const auto step = session.step();
  auto later = six_sines(x).exp().sum();
  EXPECT_SAME_BITS(plain, torch::autograd::grad({earlier}, {x})[0]);
  EXPECT_SAME_BITS(plain, torch::autograd::grad({later}, {x})[0]);
}

TEST(Step, AfterTheStepNothingIsRecorded) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  { const auto step = session.step(); }
  const StatsDelta delta;
  six_sines(x).sum().backward();
  EXPECT_EQ(delta.recorded(), 0);
  EXPECT_EQ(delta.saved(), 0);
}

TEST(Step, AnExceptionInsideEndsTheStep) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  Session session(recompute_all());
  EXPECT_THROW(
      {
        const auto step = session.step();
        auto y = six_sines(x);
        throw std::runtime_error("out");
      },
      std::runtime_error);
  const auto step = session.step();
  EXPECT_EQ(session.stats().steps, 2);
}

TEST(Step, AnEarlyReturnEndsTheStep) {
  Session session(recompute_all());
  const auto early = [&] {
    const auto step = session.step();
    return 3;
  };
  EXPECT_EQ(early() + early(), 6);
}

TEST(Step, SessionsNestInAnyOrder) {
  auto x = torch::randn({4}).requires_grad_();
  auto plain = torch::autograd::grad({six_sines(six_sines(x).exp()).exp().sum()}, {x})[0];
  for (const auto& outer_policy : {keep_all(), recompute_all(), every(2)}) {
    for (const auto& inner_policy : {keep_all(), recompute_all(), every(2)}) {
      SCOPED_TRACE(outer_policy.name() + " around " + inner_policy.name());
      Session outer(outer_policy), inner(inner_policy);
      const auto outer_step = outer.step();
      auto h = six_sines(x);
      {
        const auto inner_step = inner.step();
        h = six_sines(h.exp());
      }
      auto loss = h.exp().sum();
      EXPECT_SAME_BITS(plain, torch::autograd::grad({loss}, {x})[0]);
    }
  }
}

TEST(Step, TheInnermostPolicyDecides) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = torch::randn({64, 64}).requires_grad_();
  Session outer(keep_all()), inner(recompute_all());
  const auto step = outer.step();
  {
    const LiveDelta live;
    auto kept = six_sines(x);
    EXPECT_EQ(live.bytes(), 6 * kUnit);
  }
  {
    const LiveDelta live;
    auto forgotten = checkpoint(six_sines, x);
    EXPECT_EQ(live.bytes(), kUnit);
  }
  const auto inner_step = inner.step();
  const LiveDelta live;
  auto forgotten = six_sines(x);
  EXPECT_EQ(live.bytes(), kUnit);
}

TEST(Step, InnerWorkCountsForTheInnerSession) {
  auto x = torch::randn({4}).requires_grad_();
  Session outer(recompute_all()), inner(recompute_all());
  const auto outer_step = outer.step();
  auto h = x.exp();
  {
    const auto inner_step = inner.step();
    h = six_sines(h);
  }
  EXPECT_EQ(outer.stats().ops_recorded, 1);
  EXPECT_EQ(inner.stats().ops_recorded, 6);
}

TEST(Step, CheckpointsInsideAStepCountForIt) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  const auto step = session.step();
  auto loss = checkpoint(six_sines, x).sum();
  EXPECT_EQ(session.stats().ops_recorded, 7);
  loss.backward();
  EXPECT_GE(session.stats().ops_replayed, 5);
}

TEST(Step, TwoThreadsHaveTheirOwnSteps) {
  auto x = torch::randn({4}).requires_grad_();
  Session mine(recompute_all());
  const auto step = mine.step();
  std::thread([&] {
    const StatsDelta delta;
    six_sines(x).sum();
    EXPECT_EQ(delta.recorded(), 0) << "a step is bound to its thread";
    Session theirs(recompute_all());
    const auto their_step = theirs.step();
    auto loss = six_sines(x).sum();
    EXPECT_EQ(theirs.stats().ops_recorded, 7);
    loss.backward();
  }).join();
  EXPECT_EQ(mine.stats().ops_recorded, 0);
}

TEST(Step, GradientAccumulationOverSeveralBackwardsInOneStep) {
  expect_same_as_plain([](const Wrap&) -> Tensors {
    torch::nn::Linear layer(4, 4);
    auto x = torch::randn({3, 2, 4});
    for (int i = 0; i < 3; ++i) layer(x[i]).tanh().square().mean().backward();
    return {layer->weight.grad(), layer->bias.grad()};
  });
}

TEST(Step, WeightsUpdatedInPlaceInsideTheStepBetweenTwoForwards) {
  expect_same_as_plain([](const Wrap&) -> Tensors {
    torch::nn::Linear layer(4, 4);
    torch::optim::SGD optimizer(layer->parameters(), 0.1);
    auto x = torch::randn({2, 4});
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      layer(layer(x).tanh()).exp().mean().backward();
      optimizer.step();
    }
    return {layer->weight.detach(), layer->bias.detach()};
  });
}

TEST(Step, ALongRunningStepHoldsNothingOfWhatIsDone) {
  auto x = torch::randn({64, 64}).requires_grad_();
  Session session(recompute_all(), {.verify = Verify::never});
  const auto step = session.step();
  for (int i = 0; i < 50; ++i) {
    const NothingLeaks nothing_leaks;
    torch::autograd::grad({six_sines(x).sum()}, {x});
  }
}

TEST(Step, ALongRunningStepWithoutAnyBackwardHoldsNothing) {
  auto x = torch::randn({64, 64}).requires_grad_();
  Session session(keep_all());
  const auto step = session.step();
  for (int i = 0; i < 50; ++i) {
    const NothingLeaks nothing_leaks;
    six_sines(x).sum();
  }
}

}  // namespace retrace::test::steps
