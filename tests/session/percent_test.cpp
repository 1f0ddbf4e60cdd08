// Percents of the right thing: what the plain program would take in this kind of step, with what is live now.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "session/chain.h"
#include "session/ways.h"
#include "support/hostile.h"

namespace retrace::test::percent {

using torch::Tensor;
namespace nn = torch::nn;

struct AdamLoop {
  nn::Sequential net = mlp(6, 64);
  torch::optim::Adam optimizer{net->parameters(), 1e-3};
  Tensor x = torch::randn({512, 64});
  bool zero_first = false;

  Tensors step(int) {
    if (zero_first) optimizer.zero_grad();
    auto loss = net->forward(x).pow(2).mean();
    if (!zero_first) optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return {loss.detach()};
  }
};

TEST(Percent, IsOfThePlainProgramInThisKindOfStepWithWhatIsLiveNow) {
  for (const bool zero_first : {false, true}) {
    const auto run = [&](Session* session) {
      torch::manual_seed(2);
      AdamLoop loop;
      loop.zero_first = zero_first;
      return train(session, 5, [&](int i) { return loop.step(i); });
    };
    const Seen plain = run(nullptr);
    EXPECT_GT(plain.peaks[4], plain.peaks[0]) << "or nothing is tested here";
    for (const auto& [text, share] : {std::pair{"100%", 1.0}, {"85%", 0.85}}) {
      Session session{budget(text)};
      const Seen seen = run(&session);
      EXPECT_EQ(seen.bits, plain.bits) << text;
      for (size_t i = 2; i < 5; ++i) {
        EXPECT_LE(static_cast<double>(seen.peaks[i]), share * static_cast<double>(plain.peaks[i]))
            << text << " in step " << i;
      }
    }
  }
}

// What an inner backward let go of is read again by what makes the next point: the plain program does not hold it for
// that.
TEST(Percent, IsOfThePlainProgramWhereAStepDescendsByInnerBackwards) {
  RETRACE_SKIP_IF_HOSTILE();
  const auto run = [](Session* session) {
    torch::manual_seed(3);
    auto net = mlp(2, 64);
    return train(session, 5, [&](int) -> Tensors {
      net->zero_grad();
      Tensor x = torch::rand({256, 64});
      for (int k = 0; k < 12; ++k) {
        const Tensor z = x.detach().requires_grad_();
        const Tensor g = torch::autograd::grad({net->forward(z).sum()}, {z})[0];
        x = z.detach() - 0.1 * g;
      }
      net->forward(x.detach()).mean().backward();
      return {x};
    });
  };
  const Seen plain = run(nullptr);
  Session session{budget("85%")};
  const Seen seen = run(&session);
  EXPECT_EQ(seen.bits, plain.bits);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_LE(static_cast<double>(seen.peaks[i]), 0.85 * static_cast<double>(plain.peaks[i])) << "in step " << i;
  }
}

// Gradients of several losses are added up by the program, and let go of in the middle of the next step.
TEST(Percent, CountsGradientsThatTheProgramMadeItselfAsGradients) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers(8, 128);
  const Tensor x = torch::full({256, 128}, 0.3);
  const auto step = [&](int) -> Tensors {
    const Tensor y = layers.forward(x);
    layers.clear();
    const Tensors one = torch::autograd::grad({y.pow(2).mean()}, layers.weights, {}, /*retain_graph=*/true);
    const Tensors other = torch::autograd::grad({y.abs().mean()}, layers.weights);
    for (size_t i = 0; i < one.size(); ++i) {
      Tensor weight = layers.weights[i];
      weight.mutable_grad() = one[i] + other[i];
    }
    return layers.gradients();
  };
  const Seen plain = train(nullptr, 5, step);
  layers.clear();  // the first step begins without gradients, the others with those of the step before
  Session session{budget("90%")};
  const Seen seen = train(&session, 5, step);
  EXPECT_EQ(seen.bits, plain.bits);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_LE(static_cast<double>(seen.peaks[i]), 0.9 * static_cast<double>(plain.peaks[i])) << "in step " << i;
  }
}

// An evaluation before the first epoch does not show what 100 % of a training step is.
void expect_not_of_evaluations(bool with_gradients) {
  const Layers layers(8);
  const Tensor x = torch::full({256, 64}, 0.3);
  const auto step = [&](int i) -> Tensors {
    layers.clear();
    if (i == 1) {
      const torch::AutoGradMode mode(with_gradients);
      layers.forward(x).sum();
    } else if (i > 1) {
      layers.forward(x).pow(2).mean().backward();
    }
    return {};
  };
  const Seen plain = train(nullptr, 4, step);
  Session session{budget("90%")};
  const Seen seen = train(&session, 4, step);
  EXPECT_EQ(seen.peaks[2], plain.peaks[2]) << "it shows what 100 % is";
  EXPECT_LE(static_cast<double>(seen.peaks[3]), 0.9 * static_cast<double>(plain.peaks[3]));
  EXPECT_GE(static_cast<double>(seen.peaks[3]), 0.6 * static_cast<double>(plain.peaks[3]));
}

TEST(Percent, IsNotOfStepsThatLeaveNothingForABackward) {
  RETRACE_SKIP_IF_HOSTILE();
  for (const bool with_gradients : {false, true}) expect_not_of_evaluations(with_gradients);
}

// Two tasks in turn, with one trunk: each is held to its own share from the beginning of the step on.
TEST(Percent, IsOfEachKindWhereKindsTakeTurns) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers trunk(16), large(12), small(1);
  const Tensor x = torch::full({256, 64}, 0.3);
  const auto step = [&](int i) -> Tensors {
    trunk.clear();
    large.clear();
    small.clear();
    const Layers& head = i % 2 == 0 ? large : small;
    head.forward(trunk.forward(x)).pow(2).mean().backward();
    return head.gradients();
  };
  const Seen plain = train(nullptr, 14, step);
  Session session{budget("65%")};
  const Seen seen = train(&session, 14, step);
  EXPECT_EQ(seen.bits, plain.bits);
  EXPECT_LT(static_cast<double>(plain.peaks[13]), 0.9 * static_cast<double>(plain.peaks[12]));
  for (size_t i = 8; i < 14; ++i) {
    EXPECT_LE(static_cast<double>(seen.peaks[i]), 0.65 * static_cast<double>(plain.peaks[i])) << "in step " << i;
  }
}

// Those of the steps before have let go of values, too, which the plain program would have.
TEST(Percent, CountsTheGraphsOfEarlierStepsAsThePlainProgramHasThem) {
  RETRACE_SKIP_IF_HOSTILE();
  const auto run = [](Session* session) {
    const Chain chain;
    Tensors losses;
    std::vector<int64_t> peaks;
    for (int i = 0; i < 9; ++i) {
      memory::reset_peak();
      {
        Step step;
        if (session) step = session->step();
        losses.push_back(chain.loss(chain.input(256)));
        if (i % 3 == 2) {
          chain.clear();
          torch::stack(losses).sum().backward();
          losses.clear();
        }
      }
      peaks.push_back(memory::peak_bytes());
    }
    return peaks;
  };
  const std::vector<int64_t> plain = run(nullptr);
  Session session(budget("75%"));
  const std::vector<int64_t> peaks = run(&session);
  for (size_t i = 5; i < 9; i += 3) {
    EXPECT_LE(peaks[i], plain[i] * 75 / 100) << "in step " << i;
    EXPECT_GE(peaks[i], plain[i] * 65 / 100) << "in step " << i;
  }
}

// Each step is larger than all before it, and needs more than 70 % of what they took.
TEST(Percent, IsOfTheStepItselfWhereThatIsTheLargestSoFar) {
  auto net = mlp(3, 64);
  for (const auto& p : net->parameters()) p.mutable_grad() = torch::zeros_like(p);
  const auto train = [&](int64_t rows) {
    memory::reset_peak();
    const auto loss = net->forward(torch::ones({rows, 64})).pow(2).mean();
    loss.backward();
    return memory::peak_bytes();
  };
  Session session{budget("70%")};
  for (const int64_t rows : {512, 1024, 2048}) {
    const int64_t plain = train(rows);
    auto step = session.step();
    const int64_t peak = train(rows);
    step.end();
    EXPECT_LE(peak, rows == 512 ? plain : plain * 7 / 10 + 64) << rows;
  }
}

TEST(Percent, AppliesWhereBackwardRunsAfterTheStep) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers(12);
  const Tensor x = torch::randn({512, 64});
  const auto forward_peak = [&](Session* session) {
    int64_t peak = 0;
    for (int i = 0; i < 3; ++i) {
      layers.clear();
      Tensor loss;
      memory::reset_peak();
      {
        Step step;
        if (session) step = session->step();
        loss = layers.forward(x).pow(2).mean();
      }
      peak = memory::peak_bytes();
      loss.backward();
    }
    return peak;
  };
  const int64_t plain = forward_peak(nullptr);
  const std::string gradients = bits_of(layers.gradients());
  Session session{budget("60%")};
  EXPECT_LE(forward_peak(&session), plain * 6 / 10);
  EXPECT_EQ(bits_of(layers.gradients()), gradients);
  EXPECT_NE(session.stats().why_no_plan, "");
}

}  // namespace retrace::test::percent
