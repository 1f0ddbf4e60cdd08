// Refusals that are true, and sessions that share a budget.
#include <torch/torch.h>

#include <atomic>
#include <thread>

#include <retrace/retrace.h>

#include "session/chain.h"
#include "session/ways.h"
#include "support/hostile.h"

namespace retrace::test::refusal {

using torch::Tensor;
namespace nn = torch::nn;

// Two networks, two optimizers, two backwards in a step. Returns the smallest budget a refusal named, or 0.
int64_t train_gan(int64_t bytes, bool with_adam) {
  torch::manual_seed(0);
  auto generator = mlp(6, 64), critic = mlp(4, 64);
  std::unique_ptr<torch::optim::Optimizer> og, od;
  if (with_adam) {
    og = std::make_unique<torch::optim::Adam>(generator->parameters(), torch::optim::AdamOptions(1e-3));
    od = std::make_unique<torch::optim::Adam>(critic->parameters(), torch::optim::AdamOptions(1e-3));
  }
  const auto zero_grad = [](auto& optimizer, nn::Sequential& net) {
    if (optimizer) return optimizer->zero_grad();
    for (Tensor p : net->parameters()) p.mutable_grad() = Tensor();
  };
  const auto z = torch::randn({256, 64}), real = torch::randn({256, 64});
  Session session{budget(bytes)};
  try {
    for (int i = 0; i < 5; ++i) {
      const auto step = session.step();
      const auto fake = generator->forward(z);
      auto d = critic->forward(real).pow(2).mean() - critic->forward(fake.detach()).pow(2).mean();
      zero_grad(od, critic);
      d.backward();
      if (od) od->step();
      auto g = critic->forward(fake).pow(2).mean();
      zero_grad(og, generator);
      g.backward();
      if (og) og->step();
      if (with_adam) continue;
      zero_grad(od, critic);
      zero_grad(og, generator);
    }
  } catch (const InfeasibleBudget& refusal) {
    const auto& needs = refusal.needs;
    EXPECT_EQ(needs.weight_bytes + needs.gradient_bytes + needs.before_bytes + needs.step_bytes,
              refusal.smallest_bytes);
    EXPECT_GT(refusal.smallest_bytes, bytes);
    return refusal.smallest_bytes;
  }
  return 0;
}

int refusals(bool with_adam) {
  int count = 0;
  for (int64_t bytes = 1000; bytes != 0 && count < 12; ++count) bytes = train_gan(bytes, with_adam);
  return count - 1;
}

TEST(Refusal, TheSmallestBudgetIsOfTheWholeStepAndWorksWhenItIsGiven) { EXPECT_LE(refusals(false), 1); }

TEST(Refusal, WithAnOptimizerThatMakesStateThereAreTwoAtMost) { EXPECT_LE(refusals(true), 2); }

// Three rounds of forward and backward in a step, each of which leaves something behind; in the third step they are
// larger.
struct Refused {
  int64_t smallest_bytes = 0;  // 0: it was not
  int step = 0;
  std::string message;
};
Refused train_in_rounds(int64_t bytes) {
  const Layers layers;
  Refused refused;
  Session session{budget(bytes)};
  try {
    for (int i = 0; i < 5; ++i) {
      refused.step = std::max(i - 1, 0);  // if it is only refused when the next one begins
      const auto step = session.step();
      refused.step = i;
      std::vector<Tensor> collected;
      layers.clear();
      for (int k = 0; k < 3; ++k) {
        const auto y = layers.forward(torch::ones({i == 2 ? 512 : 256, 64}));
        y.pow(2).mean().backward();
        collected.push_back(y.detach());
      }
    }
  } catch (const InfeasibleBudget& refusal) {
    refused.smallest_bytes = refusal.smallest_bytes;
    refused.message = refusal.what();
  }
  return refused;
}

TEST(Refusal, WaitsForAllBackwardsThatEarlierStepsHad) {
  RETRACE_SKIP_IF_HOSTILE();
  int of_first = 0, of_third = 0;
  for (int64_t bytes = 1; bytes > 0;) {
    const Refused refused = train_in_rounds(bytes);
    bytes = refused.smallest_bytes;
    if (bytes == 0) break;
    ++(refused.step == 0 ? of_first : of_third);
    EXPECT_EQ(refused.message.find("What comes later in a first step") != std::string::npos, refused.step == 0);
  }
  EXPECT_LE(of_first, 3) << "nobody knows how many will follow";
  EXPECT_EQ(of_third, 1);
}

// A loop that collects results, or an optimizer that does.
TEST(Refusal, TellsThatStepsBeginWithMoreAndMore) {
  const Layers layers;
  std::vector<Tensor> collected;
  Session session{budget(400'000)};
  try {
    for (int i = 0; i < 20; ++i) {
      const auto step = session.step();
      layers.clear();
      const auto y = layers.forward(torch::ones({64, 64}));
      y.pow(2).mean().backward();
      collected.push_back(y.detach());
    }
    FAIL() << "20 results and the rest fit";
  } catch (const InfeasibleBudget& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("began with more live than the one before"), std::string::npos)
        << refusal.what();
  }
}

TEST(Refusal, SaysWhoHoldsWhat) {
  const Layers layers(4);
  const Tensor x = torch::randn({512, 64}), data = torch::randn({1000});
  Session session{budget(1)};
  try {
    const auto step = session.step();
    layers.forward(x).pow(2).mean().backward();
    FAIL() << "not refused";
  } catch (const InfeasibleBudget& refusal) {
    EXPECT_EQ(refusal.needs.weight_bytes, 4 * 64 * 64 * 4);
    EXPECT_GE(refusal.needs.before_bytes, static_cast<int64_t>(x.nbytes() + data.nbytes()));
    EXPECT_GE(refusal.needs.step_bytes, static_cast<int64_t>(x.nbytes()));
    EXPECT_NE(std::string(refusal.what()).find("optimizer"), std::string::npos) << refusal.what();
  }
}

TEST(Refusal, ByTheNextStepNamesMoreThanTheBudgetAlsoIfLessIsLiveByThen) {
  const int64_t bytes = memory::live_bytes() + 200'000;
  Session session{budget(bytes)};
  {
    const Tensor x = torch::randn({512, 64}, torch::requires_grad());
    const auto step = session.step();
    const Tensor y = x.sin();  // and no backward, which would refuse
  }
  try {
    const auto step = session.step();
    FAIL() << "not refused";
  } catch (const InfeasibleBudget& refusal) {
    EXPECT_GT(refusal.smallest_bytes, bytes);
  }
}

// A copy of what is overwritten is ours, not the plain program's.
TEST(Smallest, IsNotAboveThePlainPeakWhereContentIsOverwritten) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor w = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    w.mutable_grad() = Tensor();
    const Tensor x = torch::ones({64, 64});
    Tensor y;
    {
      Tensor data;  // from outside, to the step
      std::thread([&] { data = torch::full({64, 64}, 0.5); }).join();
      const Tensor h = data + w, more = h * 1;
      y = h.tanh();
      const torch::NoGradGuard no_grad;
      data.add_(1);
    }
    (y * x).sum().backward();
    return {w.grad()};
  };
  const int64_t before = memory::live_bytes();
  const Seen plain = train(nullptr, 1, step);
  w.mutable_grad() = Tensor();
  const int64_t plain_bytes = plain.peaks[0] + memory::live_bytes() - before;
  int64_t bytes = plain_bytes / 3;
  try {
    Session session{budget(bytes)};
    train(&session, 1, step);
    FAIL() << "not refused";
  } catch (const InfeasibleBudget& refusal) {
    bytes = refusal.smallest_bytes;
  }
  EXPECT_LE(bytes, plain_bytes);
}

// What the step was given and only the tape still has goes when memory runs short: the plain program had none of it by
// then.
TEST(Smallest, IsEnoughWhereAProgramReplacesATensorByOneThatItMakesFromIt) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor w = torch::randn({512, 512}).requires_grad_(), x = torch::randn({256, 512});
  Tensor state;
  const auto step = [&](int) -> Tensors {
    state = torch::roll(state, 1, 0);
    x.mm(w).mean().backward();
    return {};
  };
  const auto refused = [&](int64_t bytes) -> int64_t {
    w.mutable_grad() = Tensor();
    state = torch::ones({16384});
    try {
      Session session{budget(bytes)};
      train(&session, 1, step);
      return 0;
    } catch (const InfeasibleBudget& refusal) {
      return refusal.smallest_bytes;
    }
  };
  for (const int64_t more_bytes : {0, 200'000, 600'000, 1'000'000}) {
    const int64_t smallest = refused(memory::live_bytes() + more_bytes);
    EXPECT_GT(smallest, 0);
    EXPECT_EQ(refused(smallest), 0) << smallest;
  }
}

// Peak of one plain step, of all that is live.
int64_t plain_peak(const Tensor& w, const std::function<Tensors(int)>& step) {
  const int64_t before = memory::live_bytes();
  const int64_t peak = train(nullptr, 1, step).peaks[0];
  w.mutable_grad() = Tensor();
  return peak + memory::live_bytes() - before;
}

// What the next step is given is not what the one before made for good.
TEST(Smallest, NamedByTheNextStepIsWithoutTheDataOfThat) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor w = torch::randn({16, 16}).requires_grad_();
  const int64_t before = memory::live_bytes();
  constexpr int64_t kLarge = 1 << 16;
  Session session{budget(before + kLarge)};
  {
    const auto step = session.step();
    w.tanh().sum().backward();
    const Tensor after_backward = torch::zeros({kLarge});
  }
  const Tensor data = torch::zeros({kLarge});
  try {
    const auto step = session.step();
    FAIL() << "not refused";
  } catch (const InfeasibleBudget& refusal) {
    EXPECT_LE(refusal.smallest_bytes, before + kLarge * 4 + kLarge);
  }
}

// A copy of what is overwritten may go beyond the budget only instead of something larger.
TEST(Smallest, ThePlainPeakIsEnoughWhereAWeightChangesWhileAGraphThatReadItStands) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor w = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    w.mutable_grad() = Tensor();
    const Tensor standing = (w.narrow(0, 0, 8) * 2).sin();
    w.sum().backward();
    const Tensor large = torch::zeros({256, 64});
    {
      const torch::NoGradGuard no_grad;
      w.sub_(w.grad(), 0.1);
    }
    return {standing.detach()};
  };
  const int64_t plain_bytes = plain_peak(w, step);
  constexpr int64_t kNumberBytes = 64;
  Session session{budget(plain_bytes + kNumberBytes)};
  const Seen seen = train(&session, 3, step);
  for (const int64_t peak : seen.peaks) EXPECT_LE(peak, plain_bytes + kNumberBytes);
}

// The first batch norm is run again with the statistics of before: a copy of them is far smaller than all that was made
// from its result and that the program has for now.
TEST(Smallest, IsEnoughWhereABatchNormUsesStatisticsThatItChangesLater) {
  RETRACE_SKIP_IF_HOSTILE();
  torch::manual_seed(1);
  nn::Conv2d first(nn::Conv2dOptions(3, 12, 3).padding(1)), second(nn::Conv2dOptions(12, 12, 3).padding(1));
  nn::BatchNorm2d norm(12);
  const Tensor images = torch::rand({6, 3, 32, 32});
  const auto run = [&] {
    norm->eval();
    const Tensor a = torch::relu(norm(first(images)));
    norm->train();
    const Tensor b = torch::relu(norm(second(a)));
    norm->eval();
    const Tensor c = torch::silu(norm(second(b)));
    norm->train();
    (c + norm(first(images + 0.1))).pow(2).mean().backward();
  };
  run();                                      // makes the gradients
  constexpr int64_t kStatisticsBytes = 1024;  // of several copies
  const int64_t bytes = Work::smallest_of(run) + kStatisticsBytes;
  Session session{budget(bytes)};
  for (int i = 0; i < 4; ++i) {
    memory::reset_peak();
    const auto step = session.step();
    EXPECT_NO_THROW(run()) << "step " << i + 1;
    EXPECT_LE(memory::peak_bytes(), bytes) << "step " << i + 1;
  }
}

// A plan forgets what no backward asks for, without a price. What the program still has is then held instead of a copy.
TEST(Smallest, APlanThatForgetsWhatTheProgramHasAndReadAWeightThatChangesTakesNoCopyOfThat) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor w = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    w.mutable_grad() = Tensor();
    const Tensor held = w.erf(), standing = held.sin();
    w.tanh().sum().backward();
    {
      const torch::NoGradGuard no_grad;
      w.sub_(w.grad(), 0.1);
    }
    return {torch::zeros({512, 64}), standing.detach(), held.detach()};
  };
  const int64_t plain_bytes = plain_peak(w, step);
  Session session{budget(plain_bytes), {.planning = Planning::foreground}};
  const Seen seen = train(&session, 4, step);
  for (const int64_t peak : seen.peaks) EXPECT_LE(peak, plain_bytes);
}

// In each backward what the others have rebuilt may be let go of again.
TEST(Smallest, OfBackwardsOverOneGraphIsNoMoreThanTheyWereSeenToNeed) {
  RETRACE_SKIP_IF_HOSTILE();
  const Chain trunk;
  const auto run = [&] {
    trunk.clear();
    Tensor h = trunk.input(256);
    for (const Tensor& w : trunk.weights) h = h.mm(w).tanh().exp();
    Tensors losses;
    for (int k = 0; k < 6; ++k) losses.push_back(((h * (k + 1)).sin().exp() - 1).tanh().pow(2).mean());
    for (const Tensor& loss : losses) loss.backward({}, /*retain_graph=*/true);
  };
  memory::reset_peak();
  run();
  const int64_t plain_bytes = memory::peak_bytes();
  int64_t bytes = plain_bytes / 5;
  int refusals = 0;
  for (int64_t last = 0; last != bytes && refusals < 4;) {
    Session session{budget(last = bytes)};
    memory::reset_peak();
    try {
      for (int i = 0; i < 3; ++i) {
        const auto step = session.step();
        run();
      }
    } catch (const InfeasibleBudget& refusal) {
      ++refusals;
      EXPECT_LE(refusal.smallest_bytes, memory::peak_bytes());
      bytes = refusal.smallest_bytes;
    }
  }
  EXPECT_GT(refusals, 0);
  EXPECT_LE(refusals, 2);
  EXPECT_LT(bytes, plain_bytes * 6 / 10);
}

// The plain program fits, so nothing that we hold beside it may cost it anything.
TEST(Smallest, ThePlainPeakItselfIsEnoughWithoutForgettingAnything) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor w = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    w.mutable_grad() = Tensor();
    Tensor y = w;
    for (int k = 0; k < 4; ++k) {
      Tensor data;
      std::thread([&] { data = torch::full({64, 64}, 0.5 + k); }).join();
      y = (y + data).tanh();
      const torch::NoGradGuard no_grad;
      data.add_(1);
    }
    y.sum().backward();
    return {w.grad()};
  };
  const int64_t before = memory::live_bytes();
  const Seen plain = train(nullptr, 1, step);
  w.mutable_grad() = Tensor();
  const int64_t plain_bytes = plain.peaks[0] + memory::live_bytes() - before;
  constexpr int64_t kNumberBytes = 64;  // operators hold the numbers they were given
  Session session{budget(plain_bytes + kNumberBytes)};
  const Seen seen = train(&session, 1, step);
  EXPECT_EQ(seen.bits[0], plain.bits[0]);
  EXPECT_LE(seen.peaks[0], plain_bytes + kNumberBytes);
  EXPECT_EQ(session.stats().ops_replayed, 0);
}

// -- Stats --

TEST(PlanStats, TellHowOftenPlansWereMadeAndWhetherOneWasFollowed) {
  const Layers layers(8);
  const Tensor x = torch::randn({512, 64});
  Session session{budget("70%")};
  std::vector<bool> followed;
  for (int i = 0; i < 4; ++i) {
    {
      const auto step = session.step();
      layers.clear();
      layers.forward(x).pow(2).mean().backward();
    }
    const Stats stats = session.stats();
    followed.push_back(stats.followed_plan);
    EXPECT_EQ(stats.why_no_plan.empty(), stats.followed_plan) << stats.why_no_plan;
    EXPECT_TRUE(i > 0 || stats.plans_made == 0);
  }
  EXPECT_FALSE(followed[0]);
  EXPECT_TRUE(followed[3]);
  EXPECT_GE(session.stats().plans_made, 1);
  EXPECT_GT(session.stats().planning_seconds, 0);
}

// -- Verification --

TEST(Verified, EachNewPlanAndEachNewKindOfStep) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers(8);
  Session session{budget("70%")};
  const auto verified = [&](int64_t rows) {
    const auto step = session.step();
    layers.clear();
    layers.forward(torch::ones({rows, 64})).pow(2).mean().backward();
    return session.stats().values_verified > 0;
  };
  EXPECT_FALSE(verified(512)) << "the first step in percent forgets nothing";
  EXPECT_TRUE(verified(512)) << "the first that follows a plan";
  bool again = true;
  for (int i = 0; i < 100 && again; ++i) again = verified(512);  // plans change while times become known
  EXPECT_FALSE(again);
  EXPECT_TRUE(verified(768)) << "another kind";
}

// -- Threads --

TEST(Shared, SessionsInThreadsShareOneBudget) {
  const auto work = [](Session* session, std::atomic<int>& failures) {
    try {
      Layers layers(10);
      const Tensor x = torch::full({512, 64}, 0.3);
      std::string first;
      for (int i = 0; i < 6; ++i) {
        Step step;
        if (session) step = session->step();
        layers.clear();
        layers.forward(x).pow(2).mean().backward();
        if (i == 0) first = bits_of(layers.gradients());
        failures += bits_of(layers.gradients()) != first;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  };
  const auto peak_of = [&](const std::optional<Budget>& given) {
    std::atomic<int> failures{0};
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < 3; ++i) sessions.push_back(given ? std::make_unique<Session>(*given) : nullptr);
    memory::reset_peak();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&, i] { work(sessions[static_cast<size_t>(i)].get(), failures); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
    return memory::peak_bytes();
  };
  // One of them alone, and a little more than its least for each of the others.
  std::atomic<int> failures{0};
  memory::reset_peak();
  work(nullptr, failures);
  const int64_t alone = memory::peak_bytes() - memory::live_bytes();
  const int64_t bytes = memory::live_bytes() + alone * 2;
  EXPECT_LE(peak_of(budget(bytes)), bytes);
}

}  // namespace retrace::test::refusal
