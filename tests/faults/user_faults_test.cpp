// Exceptions from the user's side: the wrapped function, an operator, a policy, a custom Function's backward.
#include <gtest/gtest.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "trainer.h"

namespace retrace::test::faults::user {
namespace {

using at::Tensor;

// Not derived from std::exception, with something inside: it must arrive as it was thrown.
struct Oops {
  int number;
};

int64_t calls_until_throw = -1;

Tensor tripwire_cpu(const Tensor& x) {
  if (calls_until_throw >= 0 && calls_until_throw-- == 0) throw std::domain_error("the tripwire was touched");
  return at::mul(x, 0.5);
}

Tensor tripwire(const Tensor& x) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("retrace_faults::tripwire", "").typed<Tensor(const Tensor&)>();
  return op.call(x);
}

struct Grenade : torch::autograd::Function<Grenade> {
  static int64_t backwards_until_throw;
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor x = context->get_saved_variables()[0];
    if (backwards_until_throw >= 0 && backwards_until_throw-- == 0) throw std::out_of_range("it went off");
    return {grads[0] * x * 2};
  }
};
int64_t Grenade::backwards_until_throw = -1;

void arm_tripwire(int64_t n) { calls_until_throw = n; }
void arm_grenade(int64_t n) { Grenade::backwards_until_throw = n; }

}  // namespace

TORCH_LIBRARY(retrace_faults, library) { library.def("tripwire(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(retrace_faults, CPU, library) { library.impl("tripwire", tripwire_cpu); }

namespace {

// Runs one step with the fault armed for every n until none happens, and checks each recovery.
std::vector<Fault> sweep_inside(Way way, const Inside& inside, const std::function<void(int64_t)>& arm) {
  std::vector<Fault> faults;
  for (int64_t n = 0;; ++n) {
    SCOPED_TRACE(name(way) + ", call " + std::to_string(n));
    Trainer trainer(way);
    trainer.set_inside(inside);
    const int64_t before = memory::live_bytes();
    arm(n);
    const auto fault = run_step(trainer);
    arm(-1);
    if (!fault) return faults;
    faults.push_back(*fault);
    expect_recovers(trainer, before);
  }
}

Tensor times_tripwire(const Tensor& h) { return h * tripwire(h.detach()); }
Tensor through_grenade(const Tensor& h) { return Grenade::apply(h); }

TEST(UserFaults, InAnOperatorReachTheCallerFromForwardAndFromReplay) {
  for (const Way way : every_way()) {
    const auto faults = sweep_inside(way, times_tripwire, arm_tripwire);
    for (const Fault& fault : faults) {
      EXPECT_EQ(fault.type, typeid(std::domain_error).name());
      EXPECT_EQ(fault.message, "the tripwire was touched");
    }
    EXPECT_EQ(count(faults, Phase::forward), 2u) << name(way);
    const size_t replayed = count(faults, Phase::backward);
    const bool in_session =
        way == Way::checkpoint_in_session;  // where everything is forgotten, its step goes in segments
    if (way == Way::checkpoint || way == Way::nested || (in_session && !hostile())) {
      EXPECT_EQ(replayed, 2u) << name(way) << ": each of the two calls once";
    } else if (way == Way::session_recompute || hostile()) {
      EXPECT_GE(replayed, 2u) << name(way);
      EXPECT_LE(replayed, 4u) << name(way) << ": a step is rebuilt in segments, each operator at most twice";
    }
  }
}

// The same operator fails at the same point without Retrace: what is left must be the same.
TEST(UserFaults, InAnOperatorInForwardLeaveTheStateAPlainRunLeaves) {
  const auto state_after = [](Way way, int64_t n) {
    Trainer trainer(way);
    trainer.set_inside(times_tripwire);
    arm_tripwire(n);
    EXPECT_TRUE(run_step(trainer));
    arm_tripwire(-1);
    return trainer.state();
  };
  for (int64_t n = 0; n < 2; ++n) {
    const Tensors expected = state_after(Way::plain, n);
    for (const Way way : every_way()) EXPECT_SAME_BITS(expected, state_after(way, n)) << name(way) << " call " << n;
  }
}

TEST(UserFaults, InACustomFunctionsBackwardReachTheCaller) {
  for (const Way way : every_way()) {
    const auto faults = sweep_inside(way, through_grenade, arm_grenade);
    ASSERT_EQ(faults.size(), 2u) << name(way) << ": one per block";
    for (const Fault& fault : faults) {
      EXPECT_EQ(fault.phase, Phase::backward);
      EXPECT_EQ(fault.type, typeid(std::out_of_range).name());
      EXPECT_EQ(fault.message, "it went off");
    }
  }
}

TEST(UserFaults, ThrownByTheFunctionArriveAsThrownAndEndTheRegion) {
  const Tensor x = torch::randn({3}).requires_grad_();
  const NothingLeaks nothing_leaks;
  for (int depth = 1; depth <= 3; ++depth) {
    const std::function<Tensor(int)> nest = [&](int left) -> Tensor {
      if (left == 0) {
        const Tensor y = x.exp() * x.sin();
        throw Oops{41 + depth};
      }
      return checkpoint([&] { return nest(left - 1).exp(); });
    };
    try {
      nest(depth);
      FAIL() << "nothing was thrown";
    } catch (const Oops& oops) {
      EXPECT_EQ(oops.number, 41 + depth);
    }
    const StatsDelta delta;
    const Tensor y = x.exp();
    EXPECT_EQ(delta.recorded(), 0) << "still recording after the region was left";
  }
}

TEST(UserFaults, ThrownInsideAStepEndTheStepAndTheSessionGoesOn) {
  const Tensor x = torch::randn({3}).requires_grad_();
  Session session(recompute_all());
  EXPECT_THROW(
      {
        const auto step = session.step();
        const Tensor y = x.exp();
        throw Oops{1};
      },
      Oops);
  const StatsDelta delta;
  const Tensor outside = x.exp();
  EXPECT_EQ(delta.recorded(), 0);
  const Tensor expected = torch::autograd::grad({(x.exp() * x.sin()).sum()}, {x})[0];
  const auto step = session.step();
  EXPECT_SAME_BITS(expected, torch::autograd::grad({(x.exp() * x.sin()).sum()}, {x})[0]);
  EXPECT_EQ(session.stats().steps, 2);
}

TEST(UserFaults, ThrownByAPolicyReachTheCallerOfTheOperator) {
  RETRACE_SKIP_IF_HOSTILE();  // no policy is asked
  const Tensor x = torch::randn({3}).requires_grad_();
  const NothingLeaks nothing_leaks;
  for (int64_t n = 0; n < 3; ++n) {
    const CheckpointOptions options{custom([n](const OpInfo& op) -> bool {
      if (op.index == n) throw Oops{7};
      return false;
    })};
    try {
      checkpoint(options, [&] { return x.exp().sin().tanh(); });
      FAIL() << "nothing was thrown";
    } catch (const Oops& oops) {
      EXPECT_EQ(oops.number, 7);
    }
  }
  EXPECT_SAME_BITS(torch::autograd::grad({x.exp().sum()}, {x})[0],
                   torch::autograd::grad({checkpoint([&] { return x.exp(); }).sum()}, {x})[0]);
}

// A replay that fails once may be asked again: the graph is still there.
TEST(UserFaults, InReplayOfARetainedGraphCanBeTriedAgain) {
  const Tensor x = torch::randn({3}).requires_grad_();
  const auto body = [&] { return (times_tripwire(x.exp()) * x).sum(); };
  const Tensor expected = torch::autograd::grad({body()}, {x})[0];
  const Tensor loss = checkpoint(body);
  arm_tripwire(0);
  EXPECT_THROW(torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true), std::domain_error);
  arm_tripwire(-1);
  EXPECT_SAME_BITS(expected, torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0]);
  EXPECT_SAME_BITS(expected, torch::autograd::grad({loss}, {x})[0]);
}

}  // namespace
}  // namespace retrace::test::faults::user
