// The one way from what autograd saved to replay, and operators that do unusual things while they are rebuilt.
#include <torch/library.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <retrace/retrace.h>

#include "replay/replay.h"
#include "tape/scope.h"

namespace retrace::test::rebuild {

using torch::Tensor;

thread_local std::vector<ValueId> asked;

c10::Storage noted(Tape& tape, ValueId value) {
  asked.push_back(value);
  return retrace::rebuild(tape, value);
}

// One that has nothing to do with replay.
c10::Storage sevens(Tape& tape, ValueId value) {
  const Value& v = tape.value(value);
  return at::full({v.bytes / 4}, 7.0F).storage();
}

Tensor gradient(const Tensor& x, Tape::Rebuild rebuild) {
  x.mutable_grad().reset();
  const auto scope = begin_scope({.policy = recompute_all()}, rebuild);
  const Tensor y = x.sin().square();
  end_scope(scope);
  y.sum().backward();
  return x.grad();
}

TEST(Rebuild, IsAskedOncePerForgottenTensorThatBackwardUnpacks) {
  asked.clear();
  const Tensor x = torch::rand({4}).requires_grad_();
  const Tensor grad = gradient(x, &noted);
  EXPECT_EQ(asked.size(), 1U) << "the square's input; the sine's own input is no value of the tape's making";
  EXPECT_TRUE(grad.equal((2 * x.sin() * x.cos()).detach()));
}

TEST(Rebuild, ThatGivesSomethingElseIsFound) {
  const Tensor x = torch::rand({4}).requires_grad_();
  EXPECT_THROW(gradient(x, &sevens), InternalError);
}

// retrace_test::with_inner_backward(Tensor x) -> Tensor: the gradient of (x * x * x).sum(), by a backward of its own.
Tensor with_inner_backward(const Tensor& x) {
  const torch::AutoGradMode on(true);
  const Tensor inner = x.detach().clone().requires_grad_();
  return torch::autograd::grad({(inner * inner * inner).sum()}, {inner})[0];
}

Tensor called(const Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("retrace_test::with_inner_backward", "")
                             .typed<Tensor(const Tensor&)>();
  return op.call(x);
}

TORCH_LIBRARY_FRAGMENT(retrace_test, library) {
  library.def("with_inner_backward(Tensor x) -> Tensor");
  library.impl("with_inner_backward", c10::DispatchKey::CPU, &with_inner_backward);
}

TEST(Rebuild, OfAnOperatorThatRunsABackwardOfItsOwnInBackward) {
  const Tensor x = torch::rand({8}), w = torch::rand({8}).requires_grad_();
  const auto loss = [&] { return (w * called(x + 1)).square().sum(); };
  const Tensor plain = torch::autograd::grad({loss()}, {w})[0];
  EXPECT_TRUE(torch::autograd::grad({checkpoint(loss)}, {w})[0].equal(plain));
  Session session(recompute_all());
  const auto step = session.step();
  EXPECT_TRUE(torch::autograd::grad({loss()}, {w})[0].equal(plain));
}

TEST(Rebuild, OfAnOperatorThatRunsABackwardOfItsOwnBeforeItsInputIsOverwritten) {
  const Tensor start = torch::rand({64 * 1024}), w = torch::rand({64 * 1024}).requires_grad_();
  const auto loss = [&](Tensor x) {
    const Tensor product = w * called(x);
    x.add_(1);  // too large to copy: what depends on it is rebuilt here, in forward
    return product.square().sum();
  };
  const Tensor plain = torch::autograd::grad({loss(start.clone())}, {w})[0];
  EXPECT_TRUE(torch::autograd::grad({checkpoint(loss, start.clone())}, {w})[0].equal(plain));
  Session session(recompute_all());
  const auto step = session.step();
  EXPECT_TRUE(torch::autograd::grad({loss(start.clone())}, {w})[0].equal(plain));
}

// Autograd clones what an in-place product overwrites, and asks for the clone only after the product's result. Else a
// copy of all that the product is a part of would wait for it.
TEST(Rebuild, MakesWhatIsWantedOfContentBeforeThatIsOverwritten) {
  constexpr int64_t kRows = 256, kColumns = 96;
  const Tensor x = torch::rand({kRows, 64}), w = torch::rand({64, 8 * kColumns});
  const Tensor gate = torch::rand({kRows, kColumns}).requires_grad_();
  const auto loss = [&] {
    const auto parts = x.mm(w).unsafe_chunk(8, 1);
    return parts[7].mul_(gate).sin();
  };
  const auto gradients = [&](const Tensor& y) { return torch::autograd::grad({y.sum()}, {gate})[0]; };
  const Tensor plain = gradients(loss());
  const Tensor y = checkpoint(loss);
  const int64_t part_bytes = kRows * kColumns * 4, start_bytes = memory::live_bytes();
  memory::reset_peak();
  EXPECT_TRUE(gradients(y).equal(plain));
  EXPECT_LT(memory::peak_bytes() - start_bytes, 14 * part_bytes) << "the product once, and little else";
}

}  // namespace retrace::test::rebuild
