// What takes memory and gives it back: graphs that nobody runs backward, large work without gradients, several
// backwards in one step, sums whose bits depend on the number of threads. Wild programs only.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool worth_backward(const Tensor& t) { return is_real(t) && t.requires_grad() && !t.is_leaf() && t.numel() > 0; }
bool propose_worth_backward(Chooser& chooser, Statement& s) { return chooser.operand(s, worth_backward); }

bool propose_nonempty(Chooser& chooser, Statement& s) {
  return chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.numel() > 0; });
}

// ints = how often, how many operators each time
bool propose_loop(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.between(1, 4), chooser.dice.between(1, 4)};
  return propose_nonempty(chooser, s);
}

enum Kept : int64_t { kNothing, kMean, kView, kCopy, kKeptKinds };

bool propose_large(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(kKeptKinds)};
  return propose_nonempty(chooser, s);
}

bool propose_dropped_grad(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(2)};
  return propose_worth_backward(chooser, s) &&
         chooser.operand(s, [](const Tensor& t) { return t.requires_grad() && t.is_leaf(); });
}

// Seldom: each change ends LibTorch's threads and starts others.
bool propose_threads(Chooser& chooser, Statement& s) {
  if (!chooser.dice.chance(0.3)) return false;
  s.ints = {chooser.dice.between(1, 2)};
  return true;
}

void forward_and_drop(const Tensor& x, int64_t times, int64_t depth) {
  for (int64_t k = 0; k < times; ++k) {
    Tensor y = x;
    for (int64_t d = 0; d < depth; ++d) y = (y * 0.9).tanh();
  }
}

Results large_without_grad(const Tensor& x, int64_t kept) {
  torch::NoGradGuard no_grad;
  const Tensor large = x.reshape({-1}).repeat({4}).sin();
  const Tensor product = large * large + 1;
  if (kept == kNothing) return {};
  if (kept == kMean) return {product.mean()};
  const Tensor few = product.slice(0, 0, 2);
  return {kept == kView ? few : few.clone()};
}

// A graph of its own, from beginning to end: a second loss in the same step that shares nothing with the first.
Tensor gradient_of_own_graph(const Tensor& like) {
  const torch::AutoGradMode with_grad(true);
  const Tensor x = like.detach().clone().requires_grad_();
  ((x * 0.5).tanh() * x).sum().backward();
  return x.grad();
}

// Above LibTorch's grain size, so that the sum is split among threads.
constexpr int64_t kWide = 40000;

// ints = the number of threads before and after; 0: as it is
bool propose_wide(Chooser& chooser, Statement& s) {
  s.ints = {0, 0};
  if (chooser.dice.chance(0.06)) s.ints = {chooser.dice.between(1, 2), chooser.dice.between(1, 2)};
  return propose_nonempty(chooser, s);
}

// ThreadSanitizer does not know libgomp, and would report every parallel kernel.
#ifdef __SANITIZE_THREAD__
constexpr bool kMayUseThreads = false;
#else
constexpr bool kMayUseThreads = true;
#endif

void use_threads(int64_t count) {
  if (!kMayUseThreads) return;
  if (count != 0 && count != torch::get_num_threads()) torch::set_num_threads(static_cast<int>(count));
}

Tensor scaled_by_wide_sum(const Tensor& x) {
  const Tensor flat = x.reshape({-1});
  const Tensor wide = flat.repeat({kWide / flat.numel() + 1});
  return x * (wide * 0.001).sum().tanh();
}

}  // namespace

std::vector<Operator> wasteful_operators() {
  return {
      {"dropped_forward", 4, Effect::pure, propose_loop,
       [](const Call& c) -> Results { return forward_and_drop(c.in[0], c.i(0), c.i(1)), Results{}; }},
      {"large_without_grad", 4, Effect::pure, propose_large,
       [](const Call& c) -> Results { return large_without_grad(c.in[0], c.i(0)); }},
      {"own_graph", 2, Effect::pure, propose_nonempty,
       [](const Call& c) -> Results { return {gradient_of_own_graph(c.in[0])}; }},
      {"drop_grad", 2, Effect::autograd, propose_dropped_grad,
       [](const Call& c) -> Results {
         torch::autograd::grad({c.in[0]}, {c.in[1]}, {torch::full_like(c.in[0], 0.5)}, /*retain_graph=*/true,
                               /*create_graph=*/c.i(0) != 0, /*allow_unused=*/true);
         return {};
       }},
      {"backward_twice", 2, Effect::autograd, propose_worth_backward,
       [](const Call& c) -> Results {
         for (int k = 0; k < 2; ++k)
           torch::autograd::backward({c.in[0]}, {torch::full_like(c.in[0], 0.5)}, /*retain_graph=*/true);
         return {};
       }},
      {"wide_sum", 3, Effect::pure, propose_wide,
       [](const Call& c) -> Results {
         use_threads(c.i(0));
         const Tensor result = scaled_by_wide_sum(c.in[0]);
         use_threads(c.i(1));
         return {result};
       }},
      {"threads", 1, Effect::pure, propose_threads,
       [](const Call& c) -> Results { return use_threads(c.i(0)), Results{}; }},
  };
}

}  // namespace retrace::random
