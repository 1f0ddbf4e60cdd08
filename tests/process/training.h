// A small step, whole or in two halves, whose gradient can be compared with the plain program's.
#pragma once

#include <ATen/ATen.h>

#include <memory>

#include <retrace/session.h>
#include <retrace/stats.h>

class Training {
 public:
  at::Tensor layers(at::Tensor h, int count) const {
    for (int i = 0; i < count; ++i) h = h.mm(weight).mul(0.01).tanh();
    return h;
  }

  // Backward of `loss`, or of a whole forward. Clears the gradient first.
  bool has_plain_gradient(const at::Tensor& loss) {
    weight.mutable_grad() = at::Tensor();
    loss.backward();
    return at::equal(weight.grad(), plain_);
  }
  at::Tensor loss() const { return layers(input, 4).mean(); }

  // A step of its own, beginning to end, that records and rebuilds.
  bool step_works() {
    retrace::Session session(retrace::recompute_all());
    const auto step = session.step();
    return has_plain_gradient(loss()) && session.stats().ops_replayed > 0;
  }

  at::Tensor weight = at::linspace(-1, 1, 64 * 64).view({64, 64}).detach().requires_grad_(true);
  at::Tensor input = at::linspace(-1, 1, 128 * 64).view({128, 64});

 private:
  at::Tensor plain_ = [this] {
    loss().backward();
    return weight.grad().clone();
  }();
};
