// A small training step to break at every point: two blocks with BatchNorm, in-place ReLU, dropout and matrix products.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/bits.h"

namespace retrace::test::faults {

enum class Way {
  plain,
  checkpoint,
  nested,
  checkpoint_in_session,
  session_recompute,
  session_every,
  session_custom,
  session_keep
};
const std::vector<Way>& every_way();  // all but plain
std::string name(Way way);

enum class Phase { forward, backward, update };

// Called inside each block with its activations, to break things there. Must return a tensor of the same shape.
using Inside = std::function<at::Tensor(const at::Tensor&)>;

class Trainer {
 public:
  explicit Trainer(Way way);
  explicit Trainer(const Budget& budget);  // a session under it, the whole training step inside

  // One step from the current state. `phase()` tells how far it came if it throws.
  void step();
  Phase phase() const { return phase_; }
  Session& session() { return *session_; }

  void set_inside(Inside inside) { inside_ = std::move(inside); }
  void clear_gradients();

  // Parameters, BatchNorm's buffers and the default generator: all that a step changes.
  Tensors state() const;
  void set_state(const Tensors& state);

 private:
  at::Tensor block(size_t index, at::Tensor x);
  at::Tensor wrapped_block(size_t index, const at::Tensor& x);
  void forward_backward_update();

  Way way_;
  std::optional<Session> session_;
  Inside inside_ = [](const at::Tensor& h) { return h; };
  Phase phase_ = Phase::forward;
  at::Tensor input_;
  Tensors parameters_;
  Tensors buffers_;
};

// What one faulty step ended with.
struct Fault {
  Phase phase;
  std::string type;
  std::string message;  // first line
};

// Runs a step; nothing if it did not throw.
std::optional<Fault> run_step(Trainer& trainer);

// After a fault: the engine lets go of what it did not get to.
void flush_engine();

// After a fault: every byte is back, and the next step does what a plain step does from the same state.
void expect_recovers(Trainer& trainer, int64_t live_bytes_before);

// Breaks the n-th event for every n of a step, with `arm(n)` saying which and `arm(-1)` none; `warm` steps run before.
// Checks each fault and its recovery, and that no fault is swallowed. Returns them in order.
std::vector<Fault> sweep(Way way, int warm, const std::function<void(int64_t)>& arm);

size_t count(const std::vector<Fault>& faults, Phase phase);

}  // namespace retrace::test::faults
