// One training, without Retrace and in every way a Session can be set up: bits and peaks side by side.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <retrace/retrace.h>

#include "session/budget_steps.h"

namespace retrace::test {

inline torch::nn::Sequential mlp(int layers, int64_t width) {
  torch::nn::Sequential net;
  for (int i = 0; i < layers; ++i) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::GELU());
  }
  return net;
}

// Square layers with a tanh behind each.
struct Layers {
  std::vector<at::Tensor> weights;
  explicit Layers(int count = 6, int64_t width = 64) {
    torch::manual_seed(5);
    for (int i = 0; i < count; ++i) weights.push_back((torch::randn({width, width}) * 0.15).requires_grad_());
  }
  at::Tensor forward(at::Tensor x) const {
    for (const at::Tensor& w : weights) x = x.mm(w).tanh();
    return x;
  }
  void clear() const {
    for (at::Tensor w : weights) w.mutable_grad() = at::Tensor();
  }
  Tensors gradients() const {
    Tensors all;
    for (const at::Tensor& w : weights) all.push_back(w.grad());
    return all;
  }
};

struct Seen {
  std::vector<std::string> bits;  // per step
  std::vector<int64_t> peaks;     // of everything live
  Stats stats;
};

// Runs `step` so often, each time in a step of the session if there is one. It returns what is to be compared.
inline Seen train(Session* session, int steps, const std::function<Tensors(int)>& step) {
  Seen seen;
  for (int i = 0; i < steps; ++i) {
    memory::reset_peak();
    Step open;
    if (session) open = session->step();
    const Tensors results = step(i);
    open.end();
    seen.peaks.push_back(memory::peak_bytes());
    seen.bits.push_back(bits_of(results));
  }
  if (session) seen.stats = session->stats();
  return seen;
}

// Every named policy.
struct Named {
  std::string name;
  Policy policy;
};
inline std::vector<Named> named_policies() {
  return {{"keep_all", keep_all()},   {"recompute_all", recompute_all()},
          {"every(1)", every(1)},     {"every(2)", every(2)},
          {"selective", selective()}, {"custom", custom([](const OpInfo& op) { return op.index % 3 == 0; })}};
}

// The same gradients plain, under each policy, and under budgets in percent and bytes; what is refused must be refused
// truly.
inline void expect_right_in_every_way(const std::function<Tensors(int)>& step) {
  const Seen plain = train(nullptr, 4, step);
  for (const Named& named : named_policies()) {
    Session session(named.policy);
    EXPECT_EQ(train(&session, 4, step).bits, plain.bits) << named.name;
  }
  for (const char* text : {"100%", "90%", "75%", "60%"}) {
    Session session(budget(text).best_effort());
    EXPECT_EQ(train(&session, 4, step).bits, plain.bits) << text;
  }
  Session session(budget(1).best_effort());
  EXPECT_EQ(train(&session, 4, step).bits, plain.bits) << "as little as possible";
}

}  // namespace retrace::test
