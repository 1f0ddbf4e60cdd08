// Selective policies inside a region.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/operators.h"
#include "support/run.h"

namespace retrace::test::selective_policies {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;
Tensor unit() { return torch::randn({64, 64}); }

struct Cost {
  int64_t held_units = 0;
  int64_t replayed = 0;
};

Tensor body(Tensor x, Tensor w) { return torch::mm(torch::mm(x.cos(), w).sin(), w).sigmoid().sum(); }

Cost cost_of(const Policy& policy) {
  auto x = unit().requires_grad_(), w = unit().requires_grad_();
  const LiveDelta live;
  const StatsDelta delta;
  auto loss = checkpoint({.policy = policy}, body, x, w);
  const int64_t held = live.bytes() - 4;
  loss.backward();
  return {held / kUnit, delta.replayed()};
}

TEST(Selective, ListedOperatorsAreKeptAndAllOthersReplayed) {
  RETRACE_SKIP_IF_HOSTILE();
  const Cost nothing = cost_of(selective(std::vector<std::string>{}));
  EXPECT_EQ(nothing.held_units, 0);
  EXPECT_EQ(nothing.replayed, 5);  // cos, mm, sin, mm, sigmoid
  const Cost products = cost_of(selective({"aten::mm"}));
  EXPECT_EQ(products.held_units, 2);
  EXPECT_EQ(products.replayed, 3);
  const Cost several = cost_of(selective({"aten::mm", "aten::sigmoid"}));
  EXPECT_EQ(several.replayed, 2);
  const Cost sigmoid = cost_of(selective({"aten::sigmoid"}));
  EXPECT_EQ(sigmoid.held_units, 1);
  EXPECT_EQ(sigmoid.replayed, 3);  // cos, mm, sin: the second product is behind the kept sigmoid
}

// The plain program has only the tanh's result, of four bytes.
TEST(Selective, WhatIsKeptIsLetGoOfForASmallerResultThatAutogradSaves) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = unit().requires_grad_(), w = unit().requires_grad_();
  const LiveDelta live;
  const StatsDelta delta;
  auto loss = checkpoint({.policy = selective({"aten::mm"})}, [&] { return torch::mm(x, w).sum().tanh(); });
  EXPECT_EQ(live.bytes(), 4);
  loss.backward();
  EXPECT_EQ(delta.replayed(), 0);
}

TEST(Selective, EveryPolicyGivesThePlainGradients) {
  const std::vector<Policy> policies = {
      selective(),
      selective({"aten::mm"}),
      selective({"aten::sin", "aten::cos"}),
      selective({"aten::sigmoid"}),
      every(1),
      every(3),
      keep_all(),
      custom([](const OpInfo& op) { return op.index % 2 == 0; }),
      custom([](const OpInfo& op) { return op.name == "aten::mm" ? Decision::keep : Decision::recompute; }),
  };
  for (const auto& policy : policies) {
    SCOPED_TRACE(policy.name());
    expect_same_as_plain(
        [&](const Wrap& wrap) -> Tensors {
          auto x = torch::randn({6, 6}).requires_grad_(), w = torch::randn({6, 6}).requires_grad_();
          auto loss =
              wrap.how() == How::plain ? body(x, w) : checkpoint({.policy = policy, .verify = true}, body, x, w);
          loss.backward();
          return {loss, x.grad(), w.grad()};
        },
        {How::checkpoint});
  }
}

TEST(Selective, AFunctionWithEnumOrBooleanResultEqualsTheMatchingList) {
  RETRACE_SKIP_IF_HOSTILE();
  const Cost list = cost_of(selective({"aten::mm"}));
  const Cost with_enum =
      cost_of(custom([](const OpInfo& op) { return op.name == "aten::mm" ? Decision::keep : Decision::recompute; }));
  const Cost with_bool = cost_of(custom([](const OpInfo& op) { return op.name == "aten::mm"; }));
  for (const Cost& cost : {with_enum, with_bool}) {
    EXPECT_EQ(cost.held_units, list.held_units);
    EXPECT_EQ(cost.replayed, list.replayed);
  }
}

TEST(Selective, KeepingAllProductsButTheSecondByACountingPolicy) {
  RETRACE_SKIP_IF_HOSTILE();
  int products = 0;
  const Cost cost = cost_of(custom([&](const OpInfo& op) { return op.name == "aten::mm" && ++products != 2; }));
  EXPECT_EQ(products, 2);
  EXPECT_EQ(cost.held_units, 1);
  EXPECT_EQ(cost.replayed, 4);
}

TEST(Selective, AListMadeUpFrontMayServeManyRegions) {
  RETRACE_SKIP_IF_HOSTILE();
  const CheckpointOptions options{.policy = selective({"aten::mm"})};
  for (int i = 0; i < 3; ++i) {
    auto x = unit().requires_grad_(), w = unit().requires_grad_();
    const StatsDelta delta;
    checkpoint(options, body, x, w).backward();
    EXPECT_EQ(delta.replayed(), 3);
  }
}

TEST(Selective, KeptOperatorsAreNotExecutedAgain) {
  RETRACE_SKIP_IF_HOSTILE();
  auto w = torch::randn({8}).requires_grad_();
  auto x = torch::randn({8});
  for (const bool keep : {true, false}) {
    const auto policy = keep ? selective({"retrace_test::twice"}) : recompute_all();
    times_run();
    auto y = checkpoint({.policy = policy}, [&] { return (w * counted_twice(x.sin()).exp()).sum(); });
    y.backward();
    EXPECT_EQ(times_run(), keep ? 1 : 2);
  }
}

TEST(Selective, OperatorWithANumberBesideItsTensor) {
  for (const bool keep : {true, false}) {
    auto w = torch::randn({8}).requires_grad_();
    auto x = torch::randn({8});
    times_run();
    auto y = checkpoint({.policy = keep ? selective({"retrace_test::with_number"}) : recompute_all()}, [&] {
      auto [thrice, rows] = with_number(x.sin());
      EXPECT_EQ(rows, 8);
      return w * thrice * static_cast<double>(rows);
    });
    y.sum().backward();
    EXPECT_SAME_BITS(x.sin() * 3 * torch::full({8}, 8.0), w.grad());
    const int64_t expected = keep && !hostile() ? 1 : 2;
    EXPECT_EQ(times_run(), expected);
  }
}

TEST(Selective, OperatorWithTwoTensorResults) {
  for (const bool keep : {true, false}) {
    auto w = torch::randn({8}).requires_grad_();
    auto x = torch::randn({8});
    times_run();
    auto y = checkpoint({.policy = keep ? selective({"retrace_test::sine_and_cosine"}) : recompute_all()}, [&] {
      auto [sine, cosine] = sine_and_cosine(x.exp());
      return (w * sine).sin() + (w * cosine).cos();
    });
    auto ours = torch::autograd::grad({y.sum()}, {w})[0];
    auto plain = torch::autograd::grad({((w * x.exp().sin()).sin() + (w * x.exp().cos()).cos()).sum()}, {w})[0];
    EXPECT_SAME_BITS(plain, ours);
    const int64_t expected = keep && !hostile() ? 1 : 2;
    EXPECT_EQ(times_run(), expected);
  }
}

TEST(Selective, PolicySeesNamesArgumentsAndOutputs) {
  RETRACE_SKIP_IF_HOSTILE();
  std::vector<std::string> names;
  std::vector<int64_t> indices;
  const auto policy = custom([&](const OpInfo& op) {
    names.push_back(std::string(op.name) + (op.overload.empty() ? "" : "." + std::string(op.overload)));
    indices.push_back(op.index);
    if (op.name == "aten::mm") {
      EXPECT_EQ(op.inputs.size(), 2u);
      EXPECT_EQ(std::vector<int64_t>(op.inputs[0].sizes.begin(), op.inputs[0].sizes.end()),
                (std::vector<int64_t>{3, 4}));
      EXPECT_EQ(op.inputs[1].bytes, 4 * 5 * 4);
      EXPECT_EQ(op.outputs.size(), 1u);
      EXPECT_EQ(std::vector<int64_t>(op.outputs[0].sizes.begin(), op.outputs[0].sizes.end()),
                (std::vector<int64_t>{3, 5}));
      EXPECT_EQ(op.outputs[0].bytes, 3 * 5 * 4);
      EXPECT_EQ(op.outputs[0].dtype, "Float");
    }
    EXPECT_GE(op.seconds, 0);
    return false;
  });
  auto x = torch::randn({3, 4}).requires_grad_(), w = torch::randn({4, 5}).requires_grad_();
  checkpoint(
      {.policy = policy}, [](Tensor t, Tensor u) { return (t.mm(u) + u.detach()[0]).sin(); }, x, w)
      .sum()
      .backward();
  EXPECT_EQ(names, (std::vector<std::string>{"aten::mm", "aten::add.Tensor", "aten::sin"}));
  EXPECT_EQ(indices, (std::vector<int64_t>{0, 1, 2}));
}

TEST(Selective, PolicyIsConsultedInForwardOnly) {
  RETRACE_SKIP_IF_HOSTILE();
  int asked = 0;
  const auto policy = custom([&](const OpInfo&) {
    ++asked;
    return false;
  });
  auto x = torch::randn({4}).requires_grad_();
  auto y = checkpoint(
      {.policy = policy}, [](Tensor t) { return t.sin().exp().cos(); }, x);
  EXPECT_EQ(asked, 3);
  y.sum().backward();
  EXPECT_EQ(asked, 3);
}

TEST(Selective, DetachAndSizeQueriesAreNotSubjectToPolicy) {
  RETRACE_SKIP_IF_HOSTILE();
  std::vector<std::string> names;
  const auto policy = custom([&](const OpInfo& op) {
    names.emplace_back(op.name);
    return true;
  });
  auto x = torch::randn({4, 4}).requires_grad_();
  checkpoint(
      {.policy = policy}, [](Tensor t) { return t.detach().sin() * t.size(0) + t.numel(); }, x);
  EXPECT_EQ(names, (std::vector<std::string>{"aten::sin", "aten::mul", "aten::add"}));
}

TEST(Selective, OperatorTakingATensorListIsRecomputedWhenNothingIsListed) {
  auto x = unit().requires_grad_();
  const LiveDelta live;
  const StatsDelta delta;
  auto loss = checkpoint(
      {.policy = selective(std::vector<std::string>{})},
      [](Tensor t) {
        return torch::cat({t.sin(), t.cos()}).exp().sum();
      },
      x);
  EXPECT_EQ(live.bytes(), 4);
  loss.backward();
  EXPECT_EQ(delta.replayed(), 4);  // sin, cos, cat, exp
}

TEST(Selective, OperatorTakingATensorListCanBeKept) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = unit().requires_grad_();
  const LiveDelta live;
  const StatsDelta delta;
  auto loss = checkpoint(
      {.policy = selective({"aten::cat"})},
      [](Tensor t) {
        return torch::cat({t.sin(), t.cos()}).tanh().sum();
      },
      x);
  EXPECT_EQ(live.bytes(), 2 * kUnit + 4);
  loss.backward();
  EXPECT_EQ(delta.replayed(), 1);  // tanh saves its result; sin and cos save x
}

TEST(Selective, OneOverloadCanBeNamed) {
  RETRACE_SKIP_IF_HOSTILE();
  const auto replayed = [](const std::string& name) {
    auto x = unit().requires_grad_();
    const StatsDelta delta;
    checkpoint(
        {.policy = selective({name})}, [](Tensor t) { return (t + t).sin().sum(); }, x)
        .backward();
    return delta.replayed();
  };
  EXPECT_EQ(replayed("aten::add.Tensor"), 0);
  EXPECT_EQ(replayed("aten::add.Scalar"), 1);
  EXPECT_EQ(replayed("aten::add"), 0);
}

struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext*, Tensor x) { return x.mul(2); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 2};
  }
};

TEST(Selective, CustomAutogradFunctionsAreNotOperatorsToThePolicy) {
  RETRACE_SKIP_IF_HOSTILE();
  std::vector<std::string> names;
  const auto policy = custom([&](const OpInfo& op) {
    names.emplace_back(op.name);
    return false;
  });
  auto x = torch::randn({4}).requires_grad_();
  checkpoint(
      {.policy = policy}, [](Tensor t) { return Doubled::apply(t).sin(); }, x)
      .sum()
      .backward();
  EXPECT_EQ(names, (std::vector<std::string>{"aten::mul", "aten::sin"}));
}

}  // namespace retrace::test::selective_policies
