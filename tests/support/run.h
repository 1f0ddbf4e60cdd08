// Runs one program plain and under Retrace in every way that must not change its results.
//
//   expect_same_as_plain([](const Wrap& wrap) -> Tensors {
//     auto x = torch::randn({3}).requires_grad_();
//     auto y = wrap([](auto t) { return t.exp(); }, x);
//     y.sum().backward();
//     return {y, x.grad()};
//   });
//
// The program makes everything it uses, from the seed it is started with, and returns all that can be seen of it:
// outputs, gradients, buffers. The generator's state afterwards is compared too, and no live bytes may be left behind.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <retrace/checkpoint.h>
#include <retrace/session.h>

#include "support/bits.h"

namespace retrace::test {

enum class How {
  plain,
  checkpoint,
  nested,            // a checkpoint in a checkpoint
  kept,              // a checkpoint that keeps everything
  in_session,        // a checkpoint inside a step
  session_keep_all,  // from here on: the program unchanged, inside a step
  session_recompute_all,
  session_every,
  session_selective,
};
std::string name(How how);
const std::vector<How>& all_but_plain();

// Calls a function the way this run asks for.
class Wrap {
 public:
  explicit Wrap(How how) : how_(how) {}
  How how() const { return how_; }

  template <class F, class... Args>
  decltype(auto) operator()(F&& fn, Args&&... args) const {
    switch (how_) {
      case How::checkpoint:
      case How::in_session:
        return checkpoint(std::forward<F>(fn), std::forward<Args>(args)...);
      case How::nested:
        return checkpoint(
            [&]() -> decltype(auto) { return checkpoint(std::forward<F>(fn), std::forward<Args>(args)...); });
      case How::kept:
        return checkpoint(CheckpointOptions{.policy = keep_all()}, std::forward<F>(fn), std::forward<Args>(args)...);
      default:
        return std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
    }
  }

 private:
  How how_;
};

using Program = std::function<Tensors(const Wrap&)>;

struct Outcome {
  Tensors results;
  at::Tensor generator;
};
Outcome run(const Program& program, How how, uint64_t seed = 1);

void expect_same_as_plain(const Program& program, const std::vector<How>& ways = all_but_plain());

// Threads whose stack is a fraction of the usual one: recursion along a long graph does not survive here.
void on_small_stack(const std::function<void()>& work);

}  // namespace retrace::test
