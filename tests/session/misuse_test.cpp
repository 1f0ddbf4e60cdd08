// The list of bad input, each a clear error or clearly defined, nothing lost. (Unknown operators:
// policies_test; segments and empty Sequentials: contract/sequential_test; limits: memory/counter_test.)
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <atomic>
#include <optional>
#include <thread>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::misuse {

using torch::Tensor;

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Misuse, AStepWhileOneIsOpenOnThisThreadIsRefused) {
  Session session(recompute_all());
  const auto step = session.step();
  const auto text = refusal([&] { const auto second = session.step(); });
  EXPECT_EQ(text.rfind("[Session::step]", 0), 0u) << text;
  EXPECT_NE(text.find("open"), std::string::npos) << text;
}

TEST(Misuse, ARefusedStepLosesNothing) {
  auto x = torch::randn({4}).requires_grad_();
  auto plain = torch::autograd::grad({x.sin().exp().cos().sum()}, {x})[0];
  Session session(recompute_all());
  {
    const auto step = session.step();
    auto h = x.sin().exp();
    EXPECT_THROW({ const auto second = session.step(); }, UsageError);
    EXPECT_EQ(session.stats().steps, 1);
    auto loss = h.cos().sum();
    EXPECT_EQ(session.stats().ops_recorded, 4) << "the open step goes on recording";
    EXPECT_SAME_BITS(plain, torch::autograd::grad({loss}, {x})[0]);
  }
  const auto next = session.step();
  EXPECT_EQ(session.stats().steps, 2);
}

TEST(Misuse, ASessionUsedFromAnotherThreadThanItsStepsIsRefused) {
  Session session(recompute_all());
  const auto step = session.step();
  std::string text;
  std::thread([&] { text = refusal([&] { const auto theirs = session.step(); }); }).join();
  EXPECT_EQ(text.rfind("[Session::step]", 0), 0u) << text;
  EXPECT_NE(text.find("thread"), std::string::npos) << text;
}

TEST(Misuse, ASessionMayMoveToAnotherThreadBetweenSteps) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  { const auto step = session.step(); }
  std::thread([&] {
    const auto step = session.step();
    auto loss = x.sin().sin().sum();
    EXPECT_EQ(session.stats().ops_recorded, 3);
    loss.backward();
  }).join();
  EXPECT_EQ(session.stats().steps, 2);
}

TEST(Misuse, StatsMayBeAskedFromAnyThread) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  std::atomic<bool> stop{false};
  std::thread asking([&] {
    while (!stop) ASSERT_GE(session.stats().steps, 0);
  });
  for (int i = 0; i < 50; ++i) {
    const auto step = session.step();
    x.sin().sin().sum().backward();
  }
  stop = true;
  asking.join();
  EXPECT_EQ(session.stats().steps, 50);
}

TEST(Misuse, AStepMayOutliveItsSessionObject) {
  auto x = torch::randn({4}).requires_grad_();
  auto plain = torch::autograd::grad({x.sin().exp().sum()}, {x})[0];
  std::optional<Session> session(recompute_all());
  const auto step = session->step();
  session.reset();
  EXPECT_SAME_BITS(plain, torch::autograd::grad({x.sin().exp().sum()}, {x})[0]);
}

TEST(Misuse, AStepEndedOnAnotherThreadStopsRecordingAndTheNextOneSaysSo) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  Step step = session.step();
  std::thread([&] { step.end(); }).join();
  const StatsDelta delta;
  x.sin().sin().sum().backward();
  EXPECT_EQ(delta.recorded(), 0);
  EXPECT_THROW(const auto refused = session.step(), UsageError);
  const auto next = session.step();
  auto loss = x.sin().sin().sum();
  EXPECT_EQ(session.stats().ops_recorded, 3);
  loss.backward();
}

// The governor of the thread that began it must not outlive it.
TEST(Misuse, AStepUnderABudgetEndedOnAnotherThreadCorruptsNothing) {
  Session session(budget("1GB"));
  auto w = torch::randn({64, 64}).requires_grad_();
  const auto x = torch::randn({128, 64});
  for (int i = 0; i < 20; ++i) {
    std::optional<Step> step;
    try {
      step.emplace(session.step());
    } catch (const UsageError&) {
      continue;
    }
    auto loss = x.mm(w).tanh().mm(w).tanh().mean();
    std::thread([&] { step.reset(); }).join();
    loss.backward();
    EXPECT_TRUE(w.grad().defined());
    w.mutable_grad() = torch::Tensor();
  }
}

TEST(Misuse, AStepCanBeMovedAndEmpty) {
  auto x = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  Step empty;
  EXPECT_FALSE(empty);
  empty.end();
  struct Trainer {
    Session session{every(2)};
    std::optional<Step> step;
  } trainer;
  trainer.step.emplace(trainer.session.step());
  trainer.step.reset();
  EXPECT_EQ(trainer.session.stats().steps, 1);
  Step first = session.step();
  Step second = std::move(first);
  EXPECT_TRUE(second);
  auto loss = x.sin().sin().sum();
  EXPECT_EQ(session.stats().ops_recorded, 3);
  second = Step();
  const StatsDelta delta;
  loss.backward();
  x.sin();
  EXPECT_EQ(delta.recorded(), 0);
  EXPECT_NO_THROW(const auto next = session.step());
}

TEST(Misuse, AnOuterStepEndedBeforeTheInnerOne) {
  auto x = torch::randn({4}).requires_grad_();
  auto plain = torch::autograd::grad({x.sin().exp().sum()}, {x})[0];
  Session outer(recompute_all()), inner(recompute_all());
  auto outer_step = std::unique_ptr<Step>(new Step(outer.step()));
  auto inner_step = std::unique_ptr<Step>(new Step(inner.step()));
  auto loss = x.sin().exp().sum();
  outer_step.reset();
  const StatsDelta delta;
  x.sin().sum();
  inner_step.reset();
  x.sin().sum();
  EXPECT_SAME_BITS(plain, torch::autograd::grad({loss}, {x})[0]);
  const StatsDelta after;
  x.sin().sum();
  EXPECT_EQ(after.recorded(), 0) << "both have ended";
}

TEST(Misuse, ASessionThatWasMovedFromSaysSo) {
  Session session{budget("1GB")};
  Session moved(std::move(session));
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_THROW((void)session.step(), UsageError);
  EXPECT_THROW(session.stats(), UsageError);
  EXPECT_THROW(session.plan(), UsageError);
  EXPECT_THROW(session.save_tape("none.tape"), UsageError);
  EXPECT_THROW(session.name(Names()), UsageError);
  EXPECT_THROW((void)session.policy(), UsageError);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(moved.stats().steps, 0);
}

TEST(Misuse, AStepUnderNoGradRecordsNothingThatMatters) {
  auto w = torch::randn({64, 64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  Session session(recompute_all());
  const auto step = session.step();
  const torch::NoGradGuard no_grad;
  auto y = w.mm(w).sin();
  EXPECT_EQ(session.stats().saved_tensors, 0);
}

TEST(Misuse, AStepUnderInferenceMode) {
  const NothingLeaks nothing_leaks;
  Session session(recompute_all());
  const auto step = session.step();
  const c10::InferenceMode inference;
  auto x = torch::randn({4});
  EXPECT_SAME_BITS(x.sin().exp(), checkpoint([](Tensor t) { return t.sin().exp(); }, x));
}

}  // namespace retrace::test::misuse
