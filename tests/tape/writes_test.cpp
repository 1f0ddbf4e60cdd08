// Content that is written behind LibTorch's back, and settings that change between forward and backward.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <numeric>
#include <thread>

#include <retrace/retrace.h>

#include "replay/replay.h"
#include "session/ways.h"
#include "support/hostile.h"
#include "support/operators.h"
#include "tape/scope.h"

namespace retrace::test::writes {

using torch::Tensor;

void write_with_pointer(const Tensor& t, int64_t from, int64_t to) {
  auto* const p = t.data_ptr<float>();
  for (int64_t k = from; k < to; ++k) p[k] = p[k] > 0 ? 2 * p[k] : p[k] - 0.25F;
}

TEST(Writes, AFewElementsAreNoticedInTheFirstStepOfItsKindAndRemembered) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers;
  const Tensor x = torch::randn({256, 64});
  const auto step = [&](int) -> Tensors {
    layers.clear();
    Tensor h = x;
    for (const Tensor& w : layers.weights) {
      h = h.mm(w).sigmoid();
      write_with_pointer(h.detach(), 4111, 4112);
      h = h.exp().sin();
    }
    h.pow(2).mean().backward();
    return layers.gradients();
  };
  const Seen plain = train(nullptr, 4, step);
  for (const char* text : {"95%", "70%"}) {
    Session session(budget(text).best_effort());
    EXPECT_EQ(train(&session, 4, step).bits, plain.bits) << text;
  }
  Session session(recompute_all());
  EXPECT_EQ(train(&session, 4, step).bits, plain.bits);
}

TEST(Writes, WhatAFactoryMadeAndAnAccessorFilled) {
  const Layers layers(3);
  const Tensor x = torch::randn({64, 64});
  expect_right_in_every_way([&](int i) -> Tensors {
    layers.clear();
    Tensor mask = torch::zeros({64, 64});
    auto elements = mask.accessor<float, 2>();
    elements[i][3 * i + 1] = 1;
    layers.forward(x * (mask * 2 + 0.5)).pow(2).mean().backward();
    return layers.gradients();
  });
}

// Plain autograd goes on with the new content of what it saved; so must we.
TEST(Writes, AfterItWasSavedTheNewContentCounts) {
  const Layers layers(3);
  const Tensor x = torch::randn({64, 64});
  expect_right_in_every_way([&](int) -> Tensors {
    layers.clear();
    Tensor h = x.mm(layers.weights[0]).tanh();  // saved by tanh
    write_with_pointer(h.detach(), 0, h.numel());
    h = h.mm(layers.weights[1]).tanh();
    h.pow(2).mean().backward();
    return {layers.weights[0].grad(), layers.weights[1].grad()};
  });
}

// Features that are clipped between forward and backward: the next layer's product is made again from what they were.
TEST(Writes, BetweenForwardAndBackward) {
  const Layers layers;
  const Tensor x = torch::randn({256, 64});
  expect_right_in_every_way([&](int) -> Tensors {
    layers.clear();
    Tensor h = x, features;
    for (size_t i = 0; i < layers.weights.size(); ++i) {
      h = h.mm(layers.weights[i]).tanh();
      if (i == 2) features = h.detach();
    }
    write_with_pointer(features, 0, features.numel());
    h.pow(2).mean().backward();
    return layers.gradients();
  });
}

// The same, and the program lets go of them: then only the tape has what was written, which backward goes on with. An
// earlier backward looks at it, while the program has it.
TEST(Writes, BetweenForwardAndBackwardToWhatIsThenDropped) {
  const auto gradient = [](Session* session) {
    torch::manual_seed(3);
    const Tensor w = torch::randn({3, 4}).requires_grad_(), v = torch::randn({3, 4}).requires_grad_();
    const Tensor labels = torch::randint(3, {3}, torch::kLong);
    auto step = session ? session->step() : Step();
    Tensor sorted = std::get<0>(v.cumprod(1).sort(1));
    const Tensor loss = torch::cross_entropy_loss(sorted.mm(w.t()), labels);
    write_with_pointer(sorted.detach(), 0, 12);
    torch::autograd::grad({loss}, {loss}, {}, /*retain_graph=*/true);
    sorted.reset();
    loss.backward();
    return w.grad();
  };
  const Tensor plain = gradient(nullptr);
  for (const Policy& policy : {recompute_all(), every(1), every(2), selective()}) {
    Session session(policy);
    EXPECT_TRUE(gradient(&session).equal(plain)) << policy.name();
  }
}

// What every() held as a cut vertex is none any more when an older value is read.
TEST(Writes, ToACutVertexThatIsLetGoOfAndOnlyTheTapeHas) {
  RETRACE_SKIP_IF_HOSTILE();
  const auto gradients = [](Session* session) -> Tensors {
    torch::manual_seed(3);
    const Tensor w = torch::randn({16, 16}).requires_grad_(), v = torch::randn({16, 16}).requires_grad_();
    auto step = session ? session->step() : Step();
    const Tensor older = torch::ones({16, 16}).mm(w);
    Tensor cut = older.tanh();
    const Tensor product = cut.mm(v);
    write_with_pointer(cut.detach(), 0, 256);
    cut.reset();
    (product.tanh() * older).sum().backward();
    return {w.grad(), v.grad()};
  };
  const Tensors plain = gradients(nullptr);
  Session session(every(1));
  const Tensors ours = gradients(&session);
  EXPECT_TRUE(ours[0].equal(plain[0]));
  EXPECT_TRUE(ours[1].equal(plain[1]));
}

// The first step that finds it so cannot go back. All later ones keep what they make of that buffer, also those of
// other kinds.
TEST(Writes, ABufferThatIsRefilledBeforeBackwardIsRememberedInEveryKindOfStep) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers;
  const Tensor buffer = torch::ones({256, 64});
  const auto step = [&](int i) -> Tensors {
    layers.clear();
    Tensor scale = torch::full({1}, 2.0), sum;
    for (int extra = 0; extra < i; ++extra) scale = scale - 0.1;
    for (int k = 0; k < 2; ++k) {
      write_with_pointer(buffer, 0, buffer.numel());
      const Tensor h = buffer * scale;
      const Tensor loss = (h.sin() - layers.forward(h)).pow(2).mean();
      sum = k == 0 ? loss : sum + loss;
    }
    sum.backward();
    return layers.gradients();
  };
  const auto steps_after_first = [&](Session* session) {
    buffer.fill_(1);
    if (session != nullptr) {
      EXPECT_THROW(train(session, 1, step), UsageError);
    }
    buffer.fill_(1);
    return train(session, 3, [&](int i) { return step(i + 1); }).bits;
  };
  const auto plain = steps_after_first(nullptr);
  for (const Policy& policy : {recompute_all(), selective()}) {
    Session session(policy);
    EXPECT_EQ(steps_after_first(&session), plain) << policy.name();
  }
}

// Likewise what is written a second time, each time after somebody has read it.
TEST(Writes, AResultThatIsWrittenTwiceIsRememberedInItsKindOfStep) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    x.mutable_grad() = Tensor();
    const Tensor h = x.detach() * 2;
    Tensor sum = (x * (h + 1)).sin().sum();
    for (int k = 0; k < 2; ++k) {
      write_with_pointer(h, 0, h.numel());
      sum = sum + (x * (h + 1)).sin().sum();
    }
    sum.backward();
    return {x.grad()};
  };
  const auto plain = train(nullptr, 3, step).bits;
  for (const Policy& policy : {recompute_all(), selective()}) {
    Session session(policy);
    EXPECT_THROW(train(&session, 1, step), UsageError);
    EXPECT_EQ(train(&session, 3, step).bits, plain) << policy.name();
  }
}

// An operator without a graph of its own, on the result of each layer's product.
void expect_right_with(const std::function<void(const Tensor&)>& on_each) {
  const Layers layers;
  const Tensor x = torch::randn({256, 64});
  expect_right_in_every_way([&](int) -> Tensors {
    layers.clear();
    Tensor h = x;
    for (const Tensor& w : layers.weights) {
      h = h.mm(w);
      {
        const torch::NoGradGuard no_grad;
        on_each(h);
      }
      h = h.tanh();
    }
    h.pow(2).mean().backward();
    return layers.gradients();
  });
}

TEST(Writes, AComputedTensorWrittenThroughItsPointer) {
  expect_right_with([](const Tensor& h) { write_with_pointer(h.detach(), 0, h.numel()); });
}

TEST(Writes, AnOperatorThatDoesNotSayWhatItWrites) { expect_right_with(silent_double); }

TEST(Writes, AnOperatorThatCannotBeReplayedAndDoesNotSayWhatItWrites) {
  expect_right_with([](const Tensor& h) { silent_double_of_all({h}); });
}

// Between the write and the next event, when handles follow to the new content, another thread may lack memory.
TEST(Writes, AreNotLostToAThreadThatLacksMemory) {
  const Tensor x = torch::randn({64, 64}).requires_grad_();
  const auto step = [&](int) -> Tensors {
    Tensor(x).mutable_grad() = Tensor();
    Tensor h = x.log_softmax(1);
    {
      const torch::NoGradGuard no_grad;
      silent_double_of_all({h});
    }
    const Tensor loss = h.sum();
    {
      const torch::NoGradGuard no_grad;
      silent_double_of_all({h});
    }
    h = Tensor();
    std::thread([] { torch::ones({1 << 20}); }).join();
    loss.backward();
    return {x.grad()};
  };
  const auto plain = train(nullptr, 3, step).bits;
  for (const Named& named : named_policies()) {
    Session session(named.policy);
    EXPECT_EQ(train(&session, 3, step).bits, plain) << named.name;
  }
}

// from_blob with a deleter is still somebody else's memory.
TEST(Writes, MemoryOfTheUsersOwnMayBeRefilledInPart) {
  const auto w = torch::full({1}, 0.7F).requires_grad_();
  std::vector<float> buffer(1 << 16);
  for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 1 << 16}, {1000, 2000}, {77, 78}}) {
    std::string plain;
    for (const bool checkpointed : {false, true}) {
      std::fill(buffer.begin(), buffer.end(), 0.5F);
      w.mutable_grad() = Tensor();
      const auto f = [&](const Tensor& weight) {
        const Tensor in = torch::from_blob(buffer.data(), {1 << 16}, [](void*) {});
        return ((in * 2).sin() * weight).exp().mean();
      };
      const Tensor loss = checkpointed ? checkpoint(f, w) : f(w);
      std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(from), buffer.begin() + static_cast<std::ptrdiff_t>(to),
                3.F);
      loss.backward();
      if (!checkpointed) plain = bits_of({w.grad()});
      EXPECT_EQ(bits_of({w.grad()}), plain) << "refilled from " << from << " to " << to;
    }
  }
}

// -- What a kernel looks at beside its arguments --

// Forward under `first`, backward under `second`, plain and checkpointed.
void expect_same_under(const std::function<void()>& first, const std::function<void()>& second) {
  std::string plain;
  for (const bool checkpointed : {false, true}) {
    first();
    const Layers layers(4);
    const Tensor x = torch::randn({512, 64});
    const auto f = [&](Tensor h) {
      for (const Tensor& w : layers.weights) {
        h = h.mm(w);
        h = h / h.sum() * 100;
      }
      return h.pow(2).sum();
    };
    const Tensor loss = checkpointed ? checkpoint(CheckpointOptions{.verify = true}, f, x) : f(x);
    second();
    loss.backward();
    if (!checkpointed) plain = bits_of(layers.gradients());
    EXPECT_EQ(bits_of(layers.gradients()), plain);
  }
  first();
}

TEST(Settings, ReplayRunsWithForwardsNumberOfThreads) {
  const int before = at::get_num_threads();
  expect_same_under([] { at::set_num_threads(1); }, [] { at::set_num_threads(2); });
  expect_same_under([] { at::set_num_threads(2); }, [] { at::set_num_threads(1); });
  at::set_num_threads(before);
}

TEST(Settings, BackwardOnAnotherThreadWithAnotherNumberOfThreads) {
  const int before = at::get_num_threads();
  std::string plain;
  for (const bool checkpointed : {false, true}) {
    at::set_num_threads(1);
    const Layers layers(4);
    const Tensor x = torch::randn({512, 64});
    const auto f = [&](const Tensor& t) { return (layers.forward(t) / layers.forward(t).sum()).pow(2).sum(); };
    const Tensor loss = checkpointed ? checkpoint(f, x) : f(x);
    std::thread([&] {
      at::set_num_threads(2);
      loss.backward();
    }).join();
    if (!checkpointed) plain = bits_of(layers.gradients());
    EXPECT_EQ(bits_of(layers.gradients()), plain);
  }
  at::set_num_threads(before);
}

TEST(Settings, ReplayFindsThemAsForwardDidAndLeavesThemAsTheyWere) {
  at::Context& context = at::globalContext();
  expect_same_under([&] { context.setUserEnabledMkldnn(true); }, [&] { context.setUserEnabledMkldnn(false); });
  EXPECT_TRUE(context.userEnabledMkldnn());
  context.setUserEnabledMkldnn(false);
  expect_same_under([&] { context.setDeterministicAlgorithms(false, false); },
                    [&] { context.setDeterministicAlgorithms(true, true); });
  context.setUserEnabledMkldnn(true);
  EXPECT_FALSE(context.deterministicAlgorithms());
  expect_same_under([&] { at::Context::setFlushDenormal(false); }, [&] { at::Context::setFlushDenormal(true); });
  at::Context::setFlushDenormal(false);
}

TEST(Settings, TheDefaultTypeOfForwardIsThatOfReplay) {
  const Tensor x = torch::randn({8}).requires_grad_();
  std::string plain;
  for (const bool checkpointed : {false, true}) {
    x.mutable_grad() = Tensor();
    const auto f = [&](const Tensor& t) { return (t * torch::arange(0.5, 8.5, 1.0).sin()).exp().sum(); };
    const Tensor loss = checkpointed ? checkpoint(CheckpointOptions{.verify = true}, f, x) : f(x);
    torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
    loss.backward();
    EXPECT_EQ(torch::get_default_dtype(), caffe2::TypeMeta::Make<double>());
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
    if (!checkpointed) plain = bits_of({x.grad()});
    EXPECT_EQ(bits_of({x.grad()}), plain);
  }
}

// The pointer wrote all of it, the operator afterwards one row.
TEST(Writes, BehindAnOperatorThatOverwritesAPartAreNoticed) {
  const Layers layers;
  const Tensor x = torch::randn({256, 64});
  expect_right_in_every_way([&](int) -> Tensors {
    layers.clear();
    Tensor h = x;
    for (const Tensor& w : layers.weights) {
      h = h.mm(w);
      write_with_pointer(h.detach(), 0, h.numel());
      h.select(0, 7).copy_(x[0].detach());
      h = h.exp().sin();
    }
    h.pow(2).mean().backward();
    return layers.gradients();
  });
}

// Who reads a part of something large looks at that part alone; who reads or overwrites what was written must notice.
TEST(Writes, ToOnePartAreNoticedByThoseWhoReadIt) {
  constexpr int64_t kRows = 2048, kHead = 256;
  const Layers layers(2);
  const Tensor x = torch::randn({kRows, 64});
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place ? "the other part is overwritten in place" : "the other part is read");
    expect_right_in_every_way([&](int) -> Tensors {
      layers.clear();
      Tensor sum = torch::zeros({});
      for (const Tensor& w : layers.weights) {
        const Tensor h = x.mm(w).mul(0.5);
        const Tensor before = h.slice(0, kHead) + 1;
        write_with_pointer(h.detach(), (kRows - 1) * 64, kRows * 64);
        const Tensor head = h.slice(0, 0, kHead);
        if (in_place) head.add_(1);
        sum = sum + (head + 1).sin().sum() + before.sin().sum() + (h.slice(0, kHead) + 2).sin().sum();
      }
      sum.backward();
      return layers.gradients();
    });
  }
}

TEST(Writes, ToAPartThatNobodyReadsLeaveTheRestItsRecipe) {
  RETRACE_SKIP_IF_HOSTILE();
  const Tensor x = torch::randn({2048, 64}), w = torch::randn({64, 64}).requires_grad_();
  const auto scope = begin_scope({.policy = recompute_all(), .verify = true}, &rebuild);
  const Tensor h = x.mm(w);
  const auto has_recipe = [&] {
    const SharedTape::Lock tape(*scope->tape);
    return !tape->is_root(tape->value(tape->find(h)));
  };
  write_with_pointer(h.detach(), 2047 * 64, 2048 * 64);
  const Tensor head = h.slice(0, 0, 1024) + 1;
  EXPECT_TRUE(has_recipe());
  const Tensor tail = h.slice(0, 1024) + 1;
  EXPECT_FALSE(has_recipe());
  end_scope(scope);
}

// Statistics that two operators of a step write, whichever of the two a policy keeps.
TEST(Writes, OfOneBatchNormUsedTwiceAreRebuiltInOrder) {
  torch::manual_seed(0);
  const Tensor x = torch::randn({2, 3}).requires_grad_(), y = torch::randn({3, 3}).requires_grad_();
  const Tensor weight = torch::randn({3}).requires_grad_(), bias = torch::randn({3});
  Tensor mean, variance;
  const auto step = [&](int) -> Tensors {
    for (const Tensor& leaf : {x, y, weight}) leaf.mutable_grad() = Tensor();
    const auto norm = [&](const Tensor& t, const Tensor& w, const Tensor& b) {
      return torch::batch_norm(t, w, b, mean, variance, true, 0.1, 1e-5, false);
    };
    const Tensor product = x.mm(x.t());
    const Tensor first = norm(y, weight, bias), second = norm(x, bias, weight);
    (first.sin().sum() + second.sin().sum() + product.sum()).backward();
    return {x.grad(), y.grad(), weight.grad(), mean, variance};
  };
  const auto trained = [&](Session* session) {
    mean = torch::zeros({3});
    variance = torch::ones({3});
    return train(session, 2, step).bits;
  };
  const auto plain = trained(nullptr);
  for (int kept = 0; kept < 64; ++kept) {
    Session session(custom([&](const OpInfo& op) { return (kept >> op.index % 6 & 1) != 0; }));
    EXPECT_EQ(trained(&session), plain) << kept;
  }
}

}  // namespace retrace::test::writes
