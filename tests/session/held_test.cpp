// Nothing is held in vain: what plain autograd frees, or never holds, costs no memory under any policy.
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <thread>

#include <retrace/retrace.h>

#include "session/ways.h"
#include "support/hostile.h"

namespace retrace::test::held {

using torch::Tensor;

// Every policy takes at most the plain program's peak in every step; keep_all() and the first step in percent exactly
// that.
void expect_no_more_than_plain(const std::function<Tensors(int)>& step, int steps = 3) {
  const Seen plain = train(nullptr, steps, step);
  for (const Named& named : named_policies()) {
    Session session(named.policy);
    const Seen seen = train(&session, steps, step);
    EXPECT_EQ(seen.bits, plain.bits) << named.name;
    for (int i = 0; i < steps; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_LE(seen.peaks[at], plain.peaks[at]) << named.name << " in step " << i;
      EXPECT_TRUE(named.name != "keep_all" || hostile() || seen.peaks[at] == plain.peaks[at]) << "in step " << i;
    }
  }
  Session session(budget("100%"));
  const Seen seen = train(&session, steps, step);
  EXPECT_EQ(seen.bits, plain.bits) << "100%";
  EXPECT_EQ(seen.peaks[0], plain.peaks[0]) << "the first step in percent";
  for (size_t i = 0; i < seen.peaks.size(); ++i) EXPECT_LE(seen.peaks[i], plain.peaks[i]) << "100% in step " << i;
}

TEST(Held, GraphsThatDieInsideAStep) {
  const Layers layers;
  const Tensor x = torch::randn({64, 64});
  expect_no_more_than_plain([&](int) -> Tensors {
    layers.clear();
    layers.forward(x).pow(2).mean().backward();
    for (int k = 0; k < 60; ++k) layers.forward(x);
    return layers.gradients();
  });
}

TEST(Held, AnEvaluationInsideAStep) {
  const Layers layers;
  const Tensor x = torch::randn({64, 64});
  // A loader's worker made it: to the step it comes from outside.
  const auto loaded = [] {
    Tensor batch;
    std::thread([&] { batch = torch::full({64, 64}, 0.1); }).join();
    return batch;
  };
  expect_no_more_than_plain([&](int) -> Tensors {
    layers.clear();
    double sum = 0;
    {
      const torch::NoGradGuard no_grad;
      for (int b = 0; b < 60; ++b) sum += layers.forward(loaded()).sum().item<double>();
    }
    (layers.forward(x).pow(2).mean() * sum).backward();
    return layers.gradients();
  });
}

TEST(Held, SuppressionAfterBackwardOnOutputsWithAGraph) {
  const Layers layers;
  const Tensor x = torch::randn({64, 64});
  expect_no_more_than_plain([&](int) -> Tensors {
    layers.clear();
    const Tensor out = layers.forward(x);
    out.pow(2).mean().backward();
    Tensor boxes = out;
    for (int k = 0; k < 40; ++k) {
      Tensor keep = torch::ones({boxes.size(0)}, torch::kBool);
      keep[0] = false;
      boxes = boxes.index({keep});
    }
    return layers.gradients();
  });
}

TEST(Held, MicroBatchesWhoseInputsTheProgramLetsGoOf) {
  const Layers layers;
  torch::manual_seed(1);
  expect_no_more_than_plain([&](int i) -> Tensors {
    layers.clear();
    torch::manual_seed(i);
    for (int k = 0; k < 8; ++k) layers.forward(torch::randn({64, 64})).pow(2).mean().backward();
    return layers.gradients();
  });
}

TEST(Held, TwoLossesAndRetainedGraphs) {
  const Layers layers;
  const Tensor x = torch::randn({64, 64});
  expect_no_more_than_plain([&](int) -> Tensors {
    layers.clear();
    const Tensor h = layers.forward(x);
    h.pow(2).mean().backward({}, /*keep_graph=*/true);
    h.abs().mean().backward();
    const auto gradients = torch::autograd::grad({layers.forward(x).sin().mean()}, {layers.weights[0]});
    return {layers.weights[0].grad(), gradients[0]};
  });
}

// A large tensor of which only something small is made: holding it to forget the small one would not pay.
TEST(Held, ALargeInputOfASmallResult) {
  const Layers layers;
  expect_no_more_than_plain([&](int i) -> Tensors {
    layers.clear();
    torch::manual_seed(i);
    Tensor small;
    {
      const Tensor large = torch::randn({4096, 64});
      small = large.view({64, 64, 64}).mean(0);
    }
    layers.forward(small).pow(2).mean().backward();
    return layers.gradients();
  });
}

// Under a budget in bytes memory may fill up to it, and what nobody needs goes first.
TEST(Held, UnderABudgetTheFirstStepToo) {
  const Layers layers;
  const Tensor x = torch::randn({64, 64});
  const auto step = [&](int) -> Tensors {
    layers.clear();
    {
      const torch::NoGradGuard no_grad;
      for (int b = 0; b < 40; ++b) layers.forward(torch::full({64, 64}, 0.1 * b));
    }
    for (int k = 0; k < 40; ++k) layers.forward(x);
    layers.forward(x).pow(2).mean().backward();
    return layers.gradients();
  };
  const Seen plain = train(nullptr, 3, step);
  Session session{budget(plain.peaks[0])};
  const Seen seen = train(&session, 3, step);
  EXPECT_EQ(seen.bits, plain.bits);
  for (const int64_t peak : seen.peaks) EXPECT_LE(peak, plain.peaks[0]);
}

// A sample kept in a variable: its graph outlives its step, and the next step lets go of what it holds.
TEST(Held, TheGraphOfAnEarlierStepCanBeEvicted) {
  const Layers layers(12);
  const Tensor x = torch::randn({256, 64});
  Tensor sample;
  const auto step = [&](int i) -> Tensors {
    layers.clear();
    layers.forward(x).pow(2).mean().backward();
    if (i == 0) sample = layers.forward(x);
    return layers.gradients();
  };
  const Seen plain = train(nullptr, 3, step);
  sample = Tensor();
  const int64_t bytes = plain.peaks[0] * 9 / 10;
  Session session{budget(bytes)};
  const Seen seen = train(&session, 3, step);
  EXPECT_EQ(seen.bits, plain.bits);
  for (const int64_t peak : seen.peaks) EXPECT_LE(peak, bytes);
  EXPECT_GT(plain.peaks[1], bytes) << "or nothing had to go";
  // What was let go of is rebuilt when it is asked for after all.
  layers.clear();
  sample.pow(2).mean().backward();
  EXPECT_EQ(bits_of(layers.gradients()), plain.bits[2]);
}

template <bool View>
struct Reverse : torch::autograd::Function<Reverse<View>> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return View ? x.view_as(x) : x.clone(); }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext*, std::vector<Tensor> g) { return {-g[0]}; }
};

// Its forward runs without grad: the view it makes there is one that LibTorch cannot save through hooks until it is
// returned.
TEST(Held, AGradientReversalLayerDoesNotSwitchRetraceOff) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers(12);
  const Tensor x = torch::randn({256, 64});
  const auto step = [&](int) -> Tensors {
    layers.clear();
    const Tensor h = x.mm(layers.weights[0]).tanh();
    Tensor d = Reverse<true>::apply(h);
    for (size_t i = 1; i < layers.weights.size(); ++i) d = d.mm(layers.weights[i]).tanh();
    (d.pow(2).mean() + h.mean()).backward();
    return layers.gradients();
  };
  expect_no_more_than_plain(step);
  const Seen plain = train(nullptr, 3, step);
  Session session(budget("85%"));
  const Seen seen = train(&session, 3, step);
  EXPECT_EQ(seen.bits, plain.bits);
  for (size_t i = 1; i < 3; ++i) EXPECT_LE(seen.peaks[i], plain.peaks[i] * 86 / 100);
}

TEST(Held, AViewMadeWithoutGradExcludesOnlyWhatIsGivenIt) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers(12);
  const Tensor x = torch::randn({256, 64});
  const auto step = [&](int) -> Tensors {
    layers.clear();
    Tensors flat;
    {
      const torch::NoGradGuard no_grad;
      for (const Tensor& w : layers.weights) flat.push_back(w.view(-1));
    }
    Tensor loss = layers.forward(x).pow(2).mean();
    for (const Tensor& f : flat) loss = loss + f.pow(2).mean() * 0.1;  // saves the view itself
    loss.backward();
    return layers.gradients();
  };
  const Seen plain = train(nullptr, 3, step);
  Session some(recompute_all());
  const Seen seen = train(&some, 3, step);
  EXPECT_EQ(seen.bits, plain.bits);
  EXPECT_LT(seen.peaks[0], plain.peaks[0] * 9 / 10);
  Session session(budget("80%"));
  const Seen within = train(&session, 3, step);
  EXPECT_EQ(within.bits, plain.bits);
  for (size_t i = 1; i < 3; ++i) EXPECT_LE(within.peaks[i], plain.peaks[i] * 82 / 100);
}

// To forget four bytes and to make 640 KB for them beside the gradients would not pay.
TEST(Held, ASmallResultOfLargeOnes) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({5, 5}).requires_grad_();
  expect_no_more_than_plain([&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    const Tensor wide = x.reshape({-1}).repeat({3200});
    (x * (wide * 0.001).sum().tanh()).sum().backward();
    return {x.grad()};
  });
}

// Whatever else was saved before.
TEST(Held, ASmallResultOfLargeOnesBesideOthers) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({5, 5}).requires_grad_(), w = torch::randn({80, 80}).requires_grad_();
  const Tensor v = torch::randn({160, 80}).requires_grad_();
  expect_no_more_than_plain([&](int) -> Tensors {
    for (const Tensor& t : {x, w, v}) t.mutable_grad() = Tensor();
    const Tensor before = w.sin().exp().sum();
    const Tensor scaled = (x * (x.reshape({-1}).repeat({3200}) * 0.001).sum().tanh()).sum();
    (before + scaled + v.sin().sum()).backward();  // of which v's gradient is there first
    return {x.grad(), w.grad(), v.grad()};
  });
}

// As above, and everything later depends on it, until something older is read.
TEST(Held, ASmallResultOfLargeOnesThatWasACutVertex) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({42, 34}).requires_grad_(), w = torch::randn({34, 34}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    w.mutable_grad() = Tensor();
    const Tensor h = x * 3;
    const Tensor y = h * (h.reshape({-1}).repeat({30}) * 0.001).sum().tanh();
    torch::addmm(w, w, torch::mm(y.t(), y)).sum().backward();
    return {x.grad(), w.grad()};
  };
  const Seen plain = train(nullptr, 1, step);
  Session session(every(1));
  const Seen seen = train(&session, 1, step);
  EXPECT_EQ(seen.bits, plain.bits);
  EXPECT_LE(seen.peaks[0], plain.peaks[0]);
}

TEST(Held, ASmallResultOfLargeOnesInACheckpoint) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({58, 111}).requires_grad_();
  const auto scaled = [](const Tensor& t) {
    const Tensor wide = t.reshape({-1}).repeat({20});
    return t * (wide * 0.001).sum().tanh();
  };
  const auto step = [&](bool checkpointed) -> Tensors {
    x.mutable_grad() = Tensor();
    (checkpointed ? checkpoint(scaled, x) : scaled(x)).sum().backward();
    return {x.grad()};
  };
  const Seen plain = train(nullptr, 1, [&](int) { return step(false); });
  const Seen seen = train(nullptr, 1, [&](int) { return step(true); });
  EXPECT_EQ(seen.bits, plain.bits);
  EXPECT_LE(seen.peaks[0], plain.peaks[0]);
}

// For a write in place autograd saves a copy of what was there. It is to be kept then, not copied again.
TEST(Held, ACopyOfWhatAWriteReplaces) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({95, 120}).requires_grad_();
  expect_no_more_than_plain([&](int) -> Tensors {
    Tensor state;
    std::thread([&] { state = torch::full({95, 120}, 0.5); }).join();  // so to the step it comes from outside
    state.mul_(x);
    return {state.detach()};
  });
}

// Batch norms are run again without their statistics, of which nothing has to be copied.
TEST(Held, WhatARebuiltTensorWasMadeFromWhileItsNodeRuns) {
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  expect_no_more_than_plain([&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    const auto loss = [&] {
      const Tensor noted = x + 1;
      noted.data_ptr<float>()[0] = 3;  // so it cannot be rebuilt, but what is made of it can
      return noted.to(torch::kDouble).square().sum();
    };
    loss().backward();
    return {x.grad()};
  });
}

// Written with a pointer, so that nobody can make it again.
Tensor root(at::IntArrayRef sizes) {
  Tensor t = torch::empty(sizes);
  std::fill_n(t.data_ptr<float>(), t.numel(), 0.5F);
  return t;
}

TEST(Held, WhatARebuiltTensorWasMadeFromWhileANodeOfARetainedGraphRuns) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  expect_no_more_than_plain([&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    const Tensor loss = (x + root({64, 64})).to(torch::kDouble).square().sum();
    loss.backward({}, /*retain_graph=*/true);
    return {x.grad()};
  });
}

// The root has gone once what was made from it is held, however large that is.
TEST(Held, SomethingLargeThatWasRebuiltForANodeOfARetainedGraph) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({64}).requires_grad_();
  expect_no_more_than_plain([&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    const Tensor loss = (x + root({64})).repeat({64}).square().sum();
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    return {x.grad()};
  });
}

TEST(Held, StatisticsThatABatchNormWrites) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({4, 8}).requires_grad_();
  torch::nn::BatchNorm1d norm(8);
  const auto step = [&](int) -> Tensors {
    for (const Tensor& t : {x, norm->weight, norm->bias}) t.mutable_grad() = Tensor();
    norm->running_mean.zero_();
    norm->running_var.fill_(1);
    Tensor y = x;
    for (int k = 0; k < 3; ++k) y = norm(y).sigmoid();
    y.sum().backward();
    return {x.grad(), norm->running_mean, norm->running_var};
  };
  expect_no_more_than_plain(step);
  Session session(recompute_all());
  train(&session, 1, step);
  EXPECT_GT(session.stats().ops_replayed, 0);
}

// Noise that LibTorch makes for it and it writes: to copy what was there would take as much as to hold the result.
TEST(Held, MemoryThatAnOperatorFillsBesideItsResult) {
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  expect_no_more_than_plain([&](int i) -> Tensors {
    x.mutable_grad() = Tensor();
    torch::manual_seed(i);
    torch::rrelu(x, 0.1, 0.4, /*training=*/true).sum().backward();
    return {x.grad()};
  });
}

// While the program had it, it cost nothing; it is not needed, since the policy keeps what was made from it.
TEST(Held, WhatCameFromOutsideAndIsLetGoOfBeforeBackward) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({64, 64}, torch::dtype(torch::kDouble)).requires_grad_();
  const auto step = [&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    Tensor loaded;
    std::thread([&] { loaded = torch::full({64, 64}, 0.5); }).join();
    const Tensor loss = (x * loaded.to(torch::kDouble)).square().sum();
    loaded.reset();
    loss.backward();
    return {x.grad()};
  };
  const Seen plain = train(nullptr, 2, step);
  Session session(custom([](const OpInfo& op) { return op.name == "aten::_to_copy" || op.name == "aten::mul"; }));
  const Seen seen = train(&session, 2, step);
  EXPECT_EQ(seen.bits, plain.bits);
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(seen.peaks[i], plain.peaks[i]) << i;
}

// While the program still had it, it was not held in vain.
TEST(Held, WhatAPolicyKeepsAndTheProgramLetsGoOfLater) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    {
      const Tensor a = x + 1, b = a + 1;
      (b + 1).sum();
    }
    const Tensor y = x.sin();
    for (int k = 0; k < 4; ++k) x.sum();
    (y + y + 1).sum().backward();
    return {x.grad()};
  };
  const Seen plain = train(nullptr, 2, step);
  Session session(custom([](const OpInfo& op) { return op.name == "aten::add"; }));
  const Seen seen = train(&session, 2, step);
  EXPECT_EQ(seen.bits, plain.bits);
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(seen.peaks[i], plain.peaks[i]) << i;
}

// As long as its thread allocates nothing, another one's allocations are what finds that.
TEST(Held, WhatAPolicyKeepsWhileAnotherThreadsStepTakesMemory) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  const Policy adds = custom([](const OpInfo& op) { return op.name == "aten::add"; });
  const auto step = [&](const Policy* policy) -> Tensors {
    x.mutable_grad() = Tensor();
    const Tensor y = x.sin();
    {
      const Tensor a = x + 1, b = a + 1;
      (b + 1).sum();
    }
    std::thread([&] {
      std::optional<Session> session;
      Step open;
      if (policy) open = session.emplace(*policy).step();
      torch::ones({256, 256});
    }).join();
    y.sum().backward();
    return {x.grad()};
  };
  const Seen plain = train(nullptr, 2, [&](int) { return step(nullptr); });
  Session session(adds);
  const Seen seen = train(&session, 2, [&](int) { return step(&adds); });
  EXPECT_EQ(seen.bits, plain.bits);
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(seen.peaks[i], plain.peaks[i]) << i;
}

}  // namespace retrace::test::held
