// Exceptions: they reach the caller unchanged, nothing leaks, the next step works.
// (An exception at every operator and every allocation: tests/faults.)
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/operators.h"
#include "support/run.h"

namespace retrace::test::errors {

using torch::Tensor;

struct UsersOwn {
  int code;
};

// Whether recording is off and a region works as if nothing had happened.
void expect_next_step_works() {
  const StatsDelta delta;
  auto x = torch::randn({4}).requires_grad_();
  (x.exp() * 2).sum();
  EXPECT_EQ(delta.recorded(), 0) << "a scope was left open";
  auto y = checkpoint([](Tensor t) { return t.sin().exp().cos(); }, x);
  auto ours = torch::autograd::grad({y.sum()}, {x})[0];
  auto plain = torch::autograd::grad({x.sin().exp().cos().sum()}, {x})[0];
  EXPECT_SAME_BITS(plain, ours);
}

TEST(Errors, AnExceptionOfTheUsersFunctionReachesTheCallerUnchanged) {
  auto x = torch::randn({64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  for (const How how : {How::checkpoint, How::nested, How::kept}) {
    const Wrap wrap(how);
    try {
      wrap(
          [](Tensor t) -> Tensor {
            auto h = t.sin().exp();
            throw UsersOwn{42};
          },
          x);
      FAIL() << "nothing was thrown";
    } catch (const UsersOwn& e) {
      EXPECT_EQ(e.code, 42);
    }
    expect_next_step_works();
  }
}

TEST(Errors, AnErrorOfAnOperatorInForwardReachesTheCallerUnchanged) {
  auto a = torch::randn({3, 4}).requires_grad_();
  const NothingLeaks nothing_leaks;
  std::string plain, ours;
  try {
    a.exp().mm(a);
  } catch (const c10::Error& e) {
    plain = e.what_without_backtrace();
  }
  try {
    checkpoint([](Tensor t) { return t.exp().mm(t); }, a);
  } catch (const c10::Error& e) {
    ours = e.what_without_backtrace();
  }
  EXPECT_FALSE(ours.empty());
  EXPECT_EQ(plain, ours);
  expect_next_step_works();
}

TEST(Errors, AFunctionMayCatchAnOperatorsErrorAndGoOn) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({3, 4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.exp();
          EXPECT_ANY_THROW(h.mm(h));
          EXPECT_ANY_THROW(h.add_(torch::ones({7, 7})));
          return h.mm(h.t()).sin();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Errors, AnErrorOfAnOperatorInReplayReachesTheCallerUnchanged) {
  auto x = torch::randn({64}).requires_grad_();
  {
    const NothingLeaks nothing_leaks;
    auto loss = checkpoint([](Tensor t) { return (t * fragile(t.detach().sin()).exp()).sum(); }, x);
    break_fragile(true);
    try {
      loss.backward();
      FAIL() << "nothing was thrown";
    } catch (const std::domain_error& e) {
      EXPECT_STREQ(e.what(), "too fragile");
    }
    break_fragile(false);
    EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
  }
  expect_next_step_works();
}

TEST(Errors, ABackwardThatFailedInReplayCanBeAskedForAgain) {
  auto x = torch::randn({64}).requires_grad_();
  auto factor = (x.detach().sin() + 1).exp();
  auto loss = checkpoint([](Tensor t) { return (t * fragile(t.detach().sin()).exp()).sum(); }, x);
  break_fragile(true);
  EXPECT_THROW(torch::autograd::grad({loss}, {x}, {}, true), std::domain_error);
  break_fragile(false);
  EXPECT_SAME_BITS(factor, torch::autograd::grad({loss}, {x}, {}, true)[0]);
}

class Limit {
 public:
  explicit Limit(int64_t bytes_above_live) { memory::set_limit(memory::live_bytes() + bytes_above_live); }
  ~Limit() { memory::clear_limit(); }
};

TEST(Errors, RunningOutOfMemoryInForwardLeavesNothingBehind) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  {
    const Limit limit(3 * 64 * 64 * 4);
    EXPECT_THROW(checkpoint(
                     [](Tensor t) {
                       Tensors hoard;
                       for (int i = 0; i < 8; ++i) hoard.push_back(t.sin());
                       return torch::stack(hoard).sum();
                     },
                     x),
                 c10::OutOfMemoryError);
  }
  expect_next_step_works();
}

TEST(Errors, RunningOutOfMemoryInReplayLeavesTheGraphUsable) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const auto body = [](Tensor t) {
    for (int i = 0; i < 8; ++i) t = t.sin();
    return t.sum();
  };
  auto loss = checkpoint(body, x);
  {
    const NothingLeaks nothing_leaks;
    const Limit limit(3 * 64 * 64 * 4);
    EXPECT_THROW(torch::autograd::grad({loss}, {x}, {}, true), c10::OutOfMemoryError);
    EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
  }
  EXPECT_SAME_BITS(torch::autograd::grad({body(x)}, {x})[0], torch::autograd::grad({loss}, {x})[0]);
}

TEST(Errors, AnExceptionInAHookDuringBackwardLeavesNothingRebuilt) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  {
    auto loss = checkpoint(
        [](Tensor t) {
          for (int i = 0; i < 6; ++i) {
            t = t.sin();
            if (i == 3) t.register_hook([](const Tensor&) -> Tensor { throw std::logic_error("from the hook"); });
          }
          return t.sum();
        },
        x);
    try {
      loss.backward();
      FAIL() << "nothing was thrown";
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find("from the hook"), std::string::npos) << e.what();
    }
    EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
  }
  expect_next_step_works();
}

TEST(Errors, AnExceptionThrownByAPolicyReachesTheCallerOfTheOperator) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = torch::randn({4}).requires_grad_();
  const NothingLeaks nothing_leaks;
  const auto refuses = custom([](const OpInfo& op) -> bool {
    if (op.name == "aten::exp") throw UsersOwn{7};
    return false;
  });
  EXPECT_THROW(checkpoint(
                   {.policy = refuses}, [](Tensor t) { return t.sin().exp(); }, x),
               UsersOwn);
  expect_next_step_works();
}

TEST(Errors, ARegionLeftByAnExceptionDoesNotEndTheOuterOne) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const LiveDelta live;
  auto loss = checkpoint(
      [](Tensor t) {
        EXPECT_THROW(checkpoint([](Tensor u) -> Tensor { throw UsersOwn{static_cast<int>(u.dim())}; }, t), UsersOwn);
        return t.sin().sin().sin().sum();
      },
      x);
  EXPECT_EQ(live.bytes(), 4);  // the outer region still forgets
  loss.backward();
}

}  // namespace retrace::test::errors
