// What each checkpointing policy keeps and rebuilds in a described transformer. All of it is read off the block's
// table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/block.h"
#include "doctor/model.h"

namespace retrace::doctor {

enum class PolicyKind {
  keep_all,
  products,   // products are kept, the rest is made again from them
  attention,  // in the first n blocks the core of the attention is made again: scores, softmax, dropout
  blocks,     // the first n blocks are made again, each from its input
  every,      // segments of n blocks are made again, each from its input
};

struct PolicyCost {
  PolicyKind kind = PolicyKind::keep_all;
  int64_t n = 0;
  std::string name = {};    // for people: "every 2 blocks"
  int64_t kept_bytes = 0;   // of the blocks and the embedding, from forward to backward
  int64_t host_bytes = 0;   // of what is kept, those that wait in host memory
  int64_t loss_bytes = 0;   // all activations at the loss
  int64_t block_bytes = 0;  // all activations at the worst block of backward
  double extra = 0;         // work done again, as a part of the step's

  int64_t peak_bytes() const { return loss_bytes > block_bytes ? loss_bytes : block_bytes; }
};

// What they are all computed from.
class Checkpointing {
 public:
  // `loss_chunks`: logits and loss are computed for that part of the tokens at a time, each part a checkpoint.
  explicit Checkpointing(const Model& model, double balance = kUsualBalance, int64_t loss_chunks = 1);

  PolicyCost cost(PolicyKind kind, int64_t n = 0, bool offload = false) const;
  // Every policy there is, the fastest first.
  std::vector<PolicyCost> all(bool offload = false) const;
  // The fastest whose activations take no more than that.
  std::optional<PolicyCost> cheapest(int64_t activation_bytes, bool offload = false) const;
  PolicyCost leanest(bool offload = false) const;

  const Table& block() const { return block_; }
  const Table& embedding() const { return embedding_; }
  const Table& head() const { return head_; }
  double forward_share() const;  // of the blocks' forward in the step
  int64_t head_saved_bytes() const { return head_saved_; }
  int64_t loss_gradient_bytes() const { return loss_gradients_; }
  int64_t working_bytes() const { return working_; }

 private:
  int64_t block_input() const { return find(block_, "x").bytes; }
  void finish(PolicyCost& cost, int64_t rebuilt_bytes, double rebuilt_work) const;
  void rebuild_parts(PolicyCost& cost, const std::vector<std::string>& kept, bool offload) const;
  void rebuild_segments(PolicyCost& cost, bool offload) const;
  int64_t inputs_here(PolicyCost& cost, int64_t inputs, bool offload) const;

  Model model_ = {};
  Table block_, embedding_, head_;
  Rebuild alone_;      // a block from its input, for its own backward
  Rebuild with_next_;  // and for the next block's input
  int64_t head_saved_ = 0;
  double head_work_ = 0;  // done again
  int64_t saved_ = 0, working_ = 0, loss_gradients_ = 0;
  double step_work_ = 0;
};

// The line to paste.
std::string code(const PolicyCost& policy, const Model& model);

// The largest batch, and the longest sequence (a multiple of `step`), for which `fits` says yes; 0 if not even the
// first does. `fits` must not say yes again after it said no.
template <class Fits>
int64_t largest(const Fits& fits, int64_t step = 1) {
  int64_t good = 0, bad = 1;
  while (bad <= (int64_t{1} << 40) && fits(bad * step)) good = bad, bad *= 2;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle * step) ? good : bad) = middle;
  }
  return good * step;
}

}  // namespace retrace::doctor
