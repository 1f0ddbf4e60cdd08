#include "trainer.h"

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <typeinfo>

namespace retrace::test::faults {

using at::Tensor;

namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kWidth = 3;
constexpr size_t kBlocks = 2;

// Per block, in this order.
enum Parameter : size_t { kWeight, kBias, kScale, kShift, kSecond, kParameters };
enum Buffer : size_t { kMean, kVariance, kBatches, kBuffers };

std::optional<Policy> session_policy(Way way) {
  switch (way) {
    case Way::checkpoint_in_session:
    case Way::session_keep:
      return keep_all();
    case Way::session_recompute:
      return recompute_all();
    case Way::session_every:
      return every(2);
    case Way::session_custom:
      return custom([](const OpInfo& op) { return op.index % 3 == 0; });
    default:
      return std::nullopt;
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

const std::vector<Way>& every_way() {
  static const std::vector<Way> ways = {Way::checkpoint,        Way::nested,        Way::checkpoint_in_session,
                                        Way::session_recompute, Way::session_every, Way::session_custom,
                                        Way::session_keep};
  return ways;
}

std::string name(Way way) {
  static const char* const names[] = {
      "plain",         "checkpoint",     "nested",      "checkpoint_in_session", "session_recompute",
      "session_every", "session_custom", "session_keep"};
  return names[static_cast<size_t>(way)];
}

Trainer::Trainer(const Budget& budget) : Trainer(Way::plain) { session_.emplace(budget); }

Trainer::Trainer(Way way) : way_(way) {
  if (const auto policy = session_policy(way)) session_.emplace(*policy);
  torch::manual_seed(31);
  input_ = torch::randn({kRows, kWidth});
  for (size_t k = 0; k < kBlocks; ++k) {
    parameters_.push_back(torch::randn({kWidth, kWidth}).requires_grad_());
    parameters_.push_back(torch::randn({kWidth}).requires_grad_());
    parameters_.push_back(torch::rand({kWidth}).requires_grad_());
    parameters_.push_back(torch::randn({kWidth}).requires_grad_());
    parameters_.push_back(torch::randn({kWidth, kWidth}).requires_grad_());
    buffers_.push_back(torch::zeros({kWidth}));
    buffers_.push_back(torch::ones({kWidth}));
    buffers_.push_back(torch::zeros({}, torch::kLong));
  }
}

Tensor Trainer::block(size_t index, Tensor x) {
  const Tensor* p = &parameters_[index * kParameters];
  const Tensor* b = &buffers_[index * kBuffers];
  Tensor h = torch::linear(x, p[kWeight], p[kBias]);
  b[kBatches].add_(1);
  h = torch::batch_norm(h, p[kScale], p[kShift], b[kMean], b[kVariance], true, 0.1, 1e-5, false);
  h = torch::relu_(h);
  h = inside_(torch::dropout(h, 0.3, true));
  return torch::matmul(h, p[kSecond]).tanh() + x;
}

Tensor Trainer::wrapped_block(size_t index, const Tensor& x) {
  const auto body = [&](const Tensor& h) { return block(index, h); };
  if (way_ == Way::checkpoint || way_ == Way::checkpoint_in_session) return checkpoint(body, x);
  if (way_ == Way::nested) return checkpoint([&] { return checkpoint(body, x); });
  return body(x);
}

void Trainer::forward_backward_update() {
  Tensor x = input_;
  for (size_t k = 0; k < kBlocks; ++k) x = wrapped_block(k, x);
  Tensor loss = x.square().mean();
  const Tensor seed = torch::ones_like(loss);  // an operator of the forward pass, so that backward has only replays
  x.reset();
  phase_ = Phase::backward;
  loss.backward(seed);
  phase_ = Phase::update;
  const torch::NoGradGuard no_grad;
  for (const Tensor& p : parameters_) p.add_(p.grad(), -0.1);
}

void Trainer::step() {
  phase_ = Phase::forward;
  clear_gradients();
  if (!session_) return forward_backward_update();
  const auto step = session_->step();
  forward_backward_update();
}

void Trainer::clear_gradients() {
  for (Tensor& p : parameters_) p.mutable_grad() = Tensor();
}

Tensors Trainer::state() const {
  Tensors all;
  for (const Tensor& t : parameters_) all.push_back(t.detach().clone());
  for (const Tensor& t : buffers_) all.push_back(t.clone());
  all.push_back(generator_state());
  return all;
}

void Trainer::set_state(const Tensors& state) {
  const torch::NoGradGuard no_grad;
  size_t k = 0;
  for (Tensor& t : parameters_) t.copy_(state[k++]);
  for (Tensor& t : buffers_) t.copy_(state[k++]);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state[k]);
}

std::optional<Fault> run_step(Trainer& trainer) {
  try {
    trainer.step();
    return std::nullopt;
  } catch (const std::exception& error) {
    return Fault{trainer.phase(), typeid(error).name(), first_line(error.what())};
  }
}

// After an exception LibTorch's engine still has the tasks it did not get to, with their gradients, in this thread's
// queue. The next backward throws them away, also without Retrace.
void flush_engine() { torch::ones({}, torch::requires_grad()).clone().backward(); }

void expect_recovers(Trainer& trainer, int64_t live_bytes_before) {
  trainer.clear_gradients();
  flush_engine();
  EXPECT_EQ(memory::live_bytes(), live_bytes_before) << "live bytes did not return to where they were";
  const Tensors before = trainer.state();
  Trainer plain(Way::plain);
  const auto after_a_step = [&](Trainer& each) {
    each.set_inside([](const Tensor& h) { return h; });
    each.set_state(before);
    each.step();
    return each.state();
  };
  EXPECT_SAME_BITS(after_a_step(plain), after_a_step(trainer));
}

std::vector<Fault> sweep(Way way, int warm, const std::function<void(int64_t)>& arm) {
  c10::SetStackTraceFetcher([] { return std::string(); });  // a symbolised backtrace per fault takes most of the time
  std::vector<Fault> faults;
  // The end is reached when a few in a row do not happen; one that is not seen before that was swallowed.
  for (int64_t n = 0, unseen = 0; unseen < 3 && !::testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE(name(way) + ", after " + std::to_string(warm) + " steps, fault " + std::to_string(n));
    const int64_t outside = memory::live_bytes();
    {
      Trainer trainer(way);
      for (int k = 0; k < warm; ++k) trainer.step();
      trainer.clear_gradients();
      const int64_t before = memory::live_bytes();
      arm(n);
      const auto fault = run_step(trainer);
      arm(-1);
      if (fault) {
        EXPECT_EQ(unseen, 0) << "the fault before this one did not reach the caller";
        faults.push_back(*fault);
        expect_recovers(trainer, before);
      } else {
        ++unseen;
      }
    }
    EXPECT_EQ(memory::live_bytes(), outside);
  }
  return faults;
}

size_t count(const std::vector<Fault>& faults, Phase phase) {
  return static_cast<size_t>(
      std::count_if(faults.begin(), faults.end(), [&](const Fault& f) { return f.phase == phase; }));
}

}  // namespace retrace::test::faults
