// In-place operations: inside, on outputs, on inputs, on what was saved.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/run.h"

namespace retrace::test::inplace {

using torch::Tensor;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(InPlace, OnLocalIntermediates) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t * 2;
          h.add_(1).mul_(3);
          auto g = h.sin();
          g.mul_(h).clamp_(-1, 1);
          g += t;
          return g.exp_() + h;
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(InPlace, ActivationsInPlace) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(6, 6), b(6, 6);
    auto x = torch::randn({4, 6}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto h = a(t).relu_();
          h = b(h).sigmoid_() - 0.5;
          torch::leaky_relu_(h, 0.1);
          return torch::nn::functional::elu(h * 3, torch::nn::functional::ELUFuncOptions().inplace(true)).tanh();
        },
        x);
    y.sum().backward();
    return {y, x.grad(), a->weight.grad(), b->weight.grad()};
  });
}

TEST(InPlace, LongChainsOnOneStorage) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.clone();
          for (int i = 0; i < 50; ++i) h.add_(0.1).sin_();
          return h;
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(InPlace, AdditionOntoTheOutputRightAfterTheCall) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear layer(4, 4);
    auto x = torch::randn({2, 4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return layer(t.exp()); }, x);
    y += x;
    y.mul_(2);
    y.sum().backward();
    return {y, x.grad(), layer->weight.grad()};
  });
}

TEST(InPlace, AccumulatingIntoABufferMadeInside) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({5, 3}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto out = torch::zeros({5, 3});
          for (int i = 0; i < 5; ++i) out[i] = (t[i] * (i + 1)).sin();
          out.narrow(0, 1, 2).mul_(t.narrow(0, 3, 2));
          out.select(1, 2).add_(1);
          return out.exp();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(InPlace, IndexPutMaskedFillAndScatter) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({6}).requires_grad_();
    auto index = torch::tensor({0, 2, 2, 5});
    auto y = wrap(
        [&](Tensor t) {
          auto h = t * 2;
          h.index_put_({index}, t.index({index}).sin());
          h.index_put_({torch::tensor({1, 1})}, torch::ones({2}), true);
          h.masked_fill_(t > 1, 0.25);
          h.scatter_add_(0, index, t.narrow(0, 0, 4).cos());
          h.index_fill_(0, torch::tensor({3}), 2);
          return h.sin();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(InPlace, OutVariantsOnBuffersMadeInside) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto buffer = torch::empty({4});
          {
            const torch::NoGradGuard no_grad;
            torch::sin_out(buffer, t);
            torch::add_out(buffer, buffer, t);
          }
          return (w * buffer).exp();
        },
        torch::randn({4}));
    y.sum().backward();
    return {y, w.grad()};
  });
}

// A view of memory that nobody has written reads nothing of it.
TEST(InPlace, OnWhatWasMadeOfPiecesInsideAndReturned) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({2, 2}).requires_grad_();
    std::vector<Tensor> made = wrap(
        [](Tensor t) -> std::vector<Tensor> {
          auto joined = torch::empty({4, 2});
          joined.narrow(0, 0, 2).copy_(t);
          joined.narrow(0, 2, 2).copy_(t);
          return {joined, joined.log_softmax(0)};
        },
        x);
    auto joined = made[0].sigmoid_();
    auto loss = (joined + made[1].to(torch::kDouble).pow(2)).sum();
    made.clear();  // so that the softmax must be made again
    loss.backward();
    return {joined, loss, x.grad()};
  });
}

const std::string kModified = "modified by an inplace operation";

TEST(InPlace, MutatingATensorSavedInsideAfterItWasSavedIsAutogradsError) {
  for (const How how : {How::plain, How::checkpoint, How::nested, How::kept}) {
    const Wrap wrap(how);
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.exp();  // saves its result
          h.add_(1);
          return h.sin();
        },
        x);
    const auto text = message_of([&] { y.sum().backward(); });
    EXPECT_NE(text.find(kModified), std::string::npos) << name(how) << ": " << text;
  }
}

TEST(InPlace, MutatingASavedOutputAfterTheCallIsAutogradsError) {
  for (const How how : {How::plain, How::checkpoint, How::kept}) {
    const Wrap wrap(how);
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap([](Tensor t) { return t.exp(); }, x);
    y.add_(1);
    const auto text = message_of([&] { y.sum().backward(); });
    EXPECT_NE(text.find(kModified), std::string::npos) << name(how) << ": " << text;
  }
}

TEST(InPlace, MutatingALeakedSavedTensorIsAutogradsError) {
  for (const How how : {How::plain, How::checkpoint, How::kept}) {
    const Wrap wrap(how);
    auto x = torch::randn({4}).requires_grad_();
    Tensor leaked;
    auto y = wrap(
        [&](Tensor t) {
          leaked = t * 2;
          return leaked.sin();
        },
        x);
    leaked.detach().add_(1);  // a detached alias shares the version
    const auto text = message_of([&] { y.sum().backward(); });
    EXPECT_NE(text.find(kModified), std::string::npos) << name(how) << ": " << text;
  }
}

TEST(InPlace, MutatingAPolicyKeptTensorIsAutogradsError) {
  auto x = torch::randn({4, 4}).requires_grad_();
  auto y = checkpoint(
      {.policy = selective({"aten::mm"})},
      [](Tensor t) {
        auto product = t.mm(t);
        auto sine = product.sin();
        product.add_(1);
        return sine.exp();
      },
      x);
  const auto text = message_of([&] { y.sum().backward(); });
  EXPECT_NE(text.find(kModified), std::string::npos) << text;
}

TEST(InPlace, MutatingAnIntermediateThatNobodySavedIsNoError) {
  // The product is rebuilt, then overwritten, exactly as in forward.
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t * 3;
          h.sub_(1);
          auto g = h.sin();
          return g.exp();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(InPlace, AnInputChangedBeforeBackwardIsAnErrorThatNamesTheOp) {
  auto x = torch::randn({4});
  auto w = torch::randn({4}).requires_grad_();
  auto y = checkpoint([&](Tensor t) { return t.sin() * w; }, x);
  x.add_(1);
  try {
    y.sum().backward();
    FAIL() << "nothing was thrown";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("aten::sin"), std::string::npos) << text;
  }
}

TEST(InPlace, AWeightChangedBeforeBackwardIsAnErrorThatNamesTheOp) {
  torch::nn::Linear layer(4, 4);
  auto x = torch::randn({2, 4});
  auto y = checkpoint([&](Tensor t) { return layer(t).exp().sin(); }, x);
  {
    const torch::NoGradGuard no_grad;
    layer->weight.mul_(2);
  }
  try {
    y.sum().backward();
    FAIL() << "nothing was thrown";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("aten::addmm"), std::string::npos) << text;
  }
}

TEST(InPlace, AWeightChangedByAnOptimizerBeforeBackwardIsCaughtByVerify) {
  // LibTorch's optimizers write through .data(), which no version counter shows: only the values can tell.
  torch::nn::Linear layer(4, 4);
  torch::optim::SGD optimizer(layer->parameters(), 0.1);
  auto x = torch::randn({2, 4});
  auto y = checkpoint(
      {.verify = true}, [&](Tensor t) { return layer(t).exp().sin(); }, x);
  layer(x).sum().backward();
  optimizer.step();
  EXPECT_THROW(y.sum().backward(), Error);
}

TEST(InPlace, AnInputThatAutogradSavedItselfAndWasChangedIsAutogradsError) {
  auto x = torch::randn({4}).requires_grad_();
  auto y = checkpoint([](Tensor t) { return t.sin(); }, x);
  {
    const torch::NoGradGuard no_grad;
    x.add_(1);
  }
  const auto text = message_of([&] { y.sum().backward(); });
  EXPECT_NE(text.find(kModified), std::string::npos) << text;
}

TEST(InPlace, AnErrorAboutAChangedInputLeavesTheNextStepRight) {
  const NothingLeaks nothing_leaks;
  for (int round = 0; round < 2; ++round) {
    auto x = torch::randn({4});
    auto w = torch::randn({4}).requires_grad_();
    auto y = checkpoint([&](Tensor t) { return t.sin() * w; }, x);
    const auto expected = x.sin();
    if (round == 0) x.add_(1);
    if (round == 0) {
      EXPECT_THROW(y.sum().backward(), UsageError);
    } else {
      y.sum().backward();
      EXPECT_SAME_BITS(expected, w.grad());
    }
  }
}

TEST(InPlace, AnInputChangedThatBackwardDoesNotNeedIsNoError) {
  auto x = torch::randn({4}).requires_grad_();
  auto bias = torch::randn({4});
  auto y = checkpoint([&](Tensor t) { return t.exp() + bias; }, x);
  bias.zero_();
  y.sum().backward();
  EXPECT_SAME_BITS(x.detach().exp(), x.grad());
}

TEST(InPlace, AnInputChangedInsideTheRegionIsChangedOnce) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto state = torch::randn({4});
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto before = state.sin();
          state.mul_(0.9).add_(t, 0.1);
          return (w * before).exp() * state.cos();
        },
        torch::randn({4}));
    const auto after = state.clone();
    y.sum().backward();
    EXPECT_SAME_BITS(after, state);
    return {y, w.grad(), state};
  });
}

// reshape() of what cannot be viewed copies, and its result counts versions for itself (_unsafe_view).
TEST(InPlace, AWriteOutsideThroughAResultThatCountsForItselfIsNoticed) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 8}).t().detach().requires_grad_();
    Tensor flat;
    const auto y = wrap(
        [&](Tensor t) {
          flat = t.reshape({32});
          return flat.to(torch::kDouble).exp();
        },
        x);
    {
      const torch::NoGradGuard no_grad;
      flat.detach().add_(0.5);
    }
    y.sum().backward();
    return {y, x.grad()};
  });
}

}  // namespace retrace::test::inplace
