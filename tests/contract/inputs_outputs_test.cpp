// Kinds of arguments and results.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <map>
#include <optional>

#include "support/compat.h"
#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::inputs_outputs {

using torch::Tensor;

TEST(InputsOutputs, AnAbsentOptionalTensorIsPassedThrough) {
  for (const bool present : {false, true}) {
    expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
      auto x = torch::randn({4}).requires_grad_();
      const std::optional<Tensor> bias = present ? std::optional(torch::randn({4})) : std::nullopt;
      auto y = wrap(
          [](Tensor t, const std::optional<Tensor>& b) {
            auto h = t.exp();
            return b ? (h + *b).sin() : h.sin();
          },
          x, bias);
      y.sum().backward();
      return {y, x.grad()};
    });
  }
}

TEST(InputsOutputs, AnUndefinedTensorIsPassedThrough) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto [y, nothing] = wrap(
        [](Tensor t, Tensor none) {
          EXPECT_FALSE(none.defined());
          return std::tuple(t.exp().sin(), none);
        },
        x, Tensor());
    EXPECT_FALSE(nothing.defined());
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(InputsOutputs, PlainValuesComeBackInPlaceAndUnchanged) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto w = torch::randn({4}).requires_grad_();
    const auto body = [](Tensor t, int n, bool flag, std::string text, std::nullptr_t none, Tensor u) {
      return std::tuple(t.exp() * n, flag, text, none, u, (u * t).sin());
    };
    auto [a, flag, text, none, same, b] = wrap(body, x, 3, true, std::string("hello"), nullptr, w);
    EXPECT_TRUE(flag);
    EXPECT_EQ(text, "hello");
    EXPECT_EQ(none, nullptr);
    EXPECT_TRUE(same.is_same(w));
    (a.sum() + b.sum() + same.sum()).backward();
    return {a, b, same, x.grad(), w.grad()};
  });
}

TEST(InputsOutputs, NoTensorsAtAll) {
  EXPECT_EQ(checkpoint([](int a, int b) { return a + b; }, 2, 3), 5);
  int seen = 0;
  checkpoint([&](int a) { seen = a; }, 7);  // nor a result
  EXPECT_EQ(seen, 7);
  const std::string text = checkpoint([] { return std::string("nothing went in"); });
  EXPECT_EQ(text, "nothing went in");
}

TEST(InputsOutputs, MapInMapOut) {
  using Map = std::map<std::string, Tensor>;
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear layer(4, 4);
    Map in = {{"a", torch::randn({2, 4})}, {"b", torch::randn({2, 4}).requires_grad_()}};
    auto out = wrap(
        [&](const Map& m) {
          return Map{{"sum", layer(m.at("a")) + m.at("b").exp()}, {"product", (m.at("a") * m.at("b")).tanh()}};
        },
        in);
    (out["sum"].square().sum() + out["product"].sum()).backward();
    return {out["sum"], out["product"], in["b"].grad(), layer->weight.grad()};
  });
}

TEST(InputsOutputs, DictOfLibTorchInDictOut) {
  using Dict = c10::Dict<std::string, Tensor>;
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    Dict in;
    auto x = torch::randn({4}).requires_grad_();
    in.insert("x", x);
    auto out = wrap(
        [](const Dict& d) {
          Dict result;
          result.insert("y", d.at("x").exp().sin());
          return result;
        },
        in);
    out.at("y").sum().backward();
    return {out.at("y"), x.grad()};
  });
}

struct State {
  Tensor hidden;
  Tensor cell;
  int64_t step = 0;
};

TEST(InputsOutputs, UserDefinedAggregateInAndOut) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    State state{torch::randn({3}).requires_grad_(), torch::randn({3}).requires_grad_()};
    const auto first = state;
    const auto advance = [](State s) {
      return State{(s.hidden * s.cell).tanh(), s.cell.sigmoid() * s.hidden, s.step + 1};
    };
    for (int i = 0; i < 3; ++i) state = wrap(advance, state);
    EXPECT_EQ(state.step, 3);
    (state.hidden.sum() + state.cell.sum()).backward();
    return {state.hidden, state.cell, first.hidden.grad(), first.cell.grad()};
  });
}

TEST(InputsOutputs, ListOfTensorsAsAnArgument) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    Tensors list = {torch::randn({2}).requires_grad_(), torch::randn({3}).requires_grad_(), torch::randn({4})};
    auto y = wrap([](const Tensors& parts) { return torch::cat(parts).exp().sin(); }, list);
    auto z = wrap([](at::TensorList parts) { return torch::cat(parts).tanh().exp(); }, at::TensorList(list));
    (y * z).sum().backward();
    return {y, z, list[0].grad(), list[1].grad()};
  });
}

TEST(InputsOutputs, SeveralOutputsFeedSeveralInputs) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(4, 4), b(4, 4);
    auto x = torch::randn({2, 4});
    const auto split = [&](Tensor t) { return std::pair(a(t).tanh(), b(t).exp()); };
    const auto join = [](std::pair<Tensor, Tensor> p) { return (p.first * p.second).sin(); };
    Tensor y = x;
    for (int i = 0; i < 3; ++i) y = wrap(join, wrap(split, y));
    y.sum().backward();
    return {y, a->weight.grad(), a->bias.grad(), b->weight.grad(), b->bias.grad()};
  });
}

TEST(InputsOutputs, SameTensorReturnedTwice) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto [a, b] = wrap(
        [](Tensor t) {
          auto h = t.exp().sin();
          return std::pair(h, h);
        },
        x);
    EXPECT_TRUE(a.is_same(b));
    (a * b).sum().backward();
    return {a, b, x.grad()};
  });
}

TEST(InputsOutputs, TensorLeakedThroughASideChannelStaysUsable) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    Tensors leaked;
    auto y = wrap(
        [&](Tensor t) {
          auto h = t.exp();
          leaked.push_back(h);
          return h.sin();
        },
        x);
    EXPECT_EQ(leaked.size(), 1u);
    auto z = leaked[0].cos();
    (y.sum() + z.sum()).backward();
    EXPECT_EQ(leaked.size(), 1u);  // replay does not run the function again
    return {y, z, leaked[0], x.grad()};
  });
}

TEST(InputsOutputs, LeakedTensorNeedNotBeRebuilt) {
  auto x = torch::randn({4}).requires_grad_();
  Tensor leaked;
  const StatsDelta delta;
  auto y = checkpoint(
      [&](Tensor t) {
        leaked = t.exp();
        return leaked.sin();
      },
      x);
  y.sum().backward();
  EXPECT_EQ(delta.replayed(), 0);
}

TEST(InputsOutputs, OnlySomeInputsRequireGrad) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto aux = torch::randn({4});
    auto [y, same] = wrap([](Tensor t, Tensor a) { return std::pair((t * a).exp().sin(), a); }, x, aux);
    EXPECT_FALSE(same.requires_grad());
    y.sum().backward();
    return {y, same, x.grad()};
  });
}

TEST(InputsOutputs, RequiresGradOfOutputsEqualsThePlainCalls) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto aux = torch::randn({4});
    auto [a, b, c, d] =
        wrap([](Tensor t, Tensor u) { return std::tuple(t.exp(), u.exp(), t.detach().sin(), t.argmax()); }, x, aux);
    EXPECT_TRUE(a.requires_grad());
    EXPECT_FALSE(b.requires_grad());
    EXPECT_FALSE(c.requires_grad());
    EXPECT_FALSE(d.requires_grad());
    return {a, b, c, d};
  });
}

TEST(InputsOutputs, NothingNeedsToRequireGrad) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto y = wrap([](Tensor t) { return t.exp().sin(); }, torch::randn({4}));
    EXPECT_FALSE(y.requires_grad());
    auto w = torch::randn({4}).requires_grad_();
    (w * y).sum().backward();
    return {y, w.grad()};
  });
}

// Saves a tensor and shows what it gets back.
struct Identity : torch::autograd::Function<Identity> {
  static Tensor seen;
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x, Tensor aux) {
    context->save_for_backward({aux});
    return x * aux;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto aux = context->get_saved_variables()[0];
    seen = aux;
    return {gradients[0] * aux, Tensor()};
  }
};
Tensor Identity::seen;

TEST(InputsOutputs, SavedNonGradInputIsHandedBackAsTheVerySameObject) {
  auto x = torch::randn({4}).requires_grad_();
  auto aux = torch::randn({4});
  auto y = checkpoint([](Tensor t, Tensor a) { return Identity::apply(t, a).sin(); }, x, aux);
  y.sum().backward();
  EXPECT_TRUE(Identity::seen.is_alias_of(aux));
  EXPECT_EQ(Identity::seen.is_same(aux), kHooksPreserveIdentity);
  Identity::seen = Tensor();
}

TEST(InputsOutputs, InputsMayBeTemporaries) {
  auto w = torch::randn({64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  torch::manual_seed(1);
  auto y = checkpoint([&](Tensor t) { return (t.exp() * w).sin(); }, torch::randn({64}));
  auto ours = torch::autograd::grad({y.sum()}, {w})[0];
  torch::manual_seed(1);
  auto plain = torch::autograd::grad({(torch::randn({64}).exp() * w).sin().sum()}, {w})[0];
  EXPECT_SAME_BITS(plain, ours);
}

TEST(InputsOutputs, ResultsMayBeReferences) {
  Tensor held = torch::randn({4});
  Tensor& same = checkpoint([](Tensor& t) -> Tensor& { return t; }, held);
  EXPECT_EQ(&same, &held);
}

TEST(InputsOutputs, MoveOnlyArgumentsAndResults) {
  auto x = torch::randn({4}).requires_grad_();
  auto result = checkpoint(
      [](std::unique_ptr<int> n, Tensor t) {
        auto y = (t * *n).exp();
        return std::pair(std::move(n), y);
      },
      std::make_unique<int>(3), x);
  EXPECT_EQ(*result.first, 3);
  result.second.sum().backward();
  EXPECT_SAME_BITS((x.detach() * 3).exp() * 3, x.grad());
}

}  // namespace retrace::test::inputs_outputs
