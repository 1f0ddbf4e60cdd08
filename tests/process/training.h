// A small step, whole or in two halves, whose gradient can be compared with the plain program's.
#pragma once

#include <ATen/ATen.h>

#include <memory>

#include <retrace/session.h>
#include <retrace/stats.h>

struct Training {
  at::Tensor weight = at::linspace(-1, 1, 64 * 64).view({64, 64}).detach().requires_grad_(true);
  at::Tensor input = at::linspace(-1, 1, 128 * 64).view({128, 64});

  at::Tensor layers(at::Tensor h, int count) const {
    for (int i = 0; i < count; ++i) h = h.mm(weight).mul(0.01).tanh();
    return h;
  }
  at::Tensor loss() const { return layers(input, 4).mean(); }

  at::Tensor gradient(const at::Tensor& loss) {
    weight.mutable_grad() = at::Tensor();
    loss.backward();
    return weight.grad().clone();
  }
  // Outside of steps only: it would be recorded.
  bool is_plain(const at::Tensor& gradient_of_step) { return at::equal(gradient_of_step, gradient(loss())); }

  // A step of its own, beginning to end, that records and rebuilds.
  bool step_works() {
    retrace::Session session(retrace::recompute_all());
    at::Tensor result;
    {
      const auto step = session.step();
      result = gradient(loss());
    }
    return session.stats().ops_replayed > 0 && is_plain(result);
  }
};
