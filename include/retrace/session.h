// A Session puts a policy around whole training steps, with no change to the model.
//
//   retrace::Session session(retrace::every(4));
//   for (auto& batch : *loader) {
//     auto step = session.step();
//     auto loss = criterion(model->forward(batch.data), batch.target);
//     loss.backward();
//     optimizer.step();
//   }
#pragma once

#include <memory>

#include <retrace/policy.h>
#include <retrace/stats.h>

namespace retrace {

enum class Verify { never, first_step, always };

struct SessionOptions {
  // Compare every rebuilt value with a fingerprint of the original, bit for bit. Costs a pass over what is dropped.
  Verify verify = Verify::first_step;
};

namespace detail {
class SessionState;
}

// While it lives, operators this thread runs are recorded under the session's policy. Bound to its thread. Backward may
// run inside it or after it has ended: the tape lives as long as the autograd graph.
class Step {
 public:
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  friend class Session;
  explicit Step(std::shared_ptr<detail::SessionState> session);
  std::shared_ptr<detail::SessionState> session_;
  std::shared_ptr<void> scope_;
};

class Session {
 public:
  explicit Session(Policy policy, SessionOptions options = {});

  // Begins a step on the calling thread. Steps of other sessions and checkpoints may nest inside it in any order.
  // Throws UsageError while a step of this session is open, on this thread or on another.
  [[nodiscard]] Step step();

  // What the latest step did so far, backward included. `steps` counts all. Any thread may ask.
  Stats stats() const;

  const Policy& policy() const;

 private:
  std::shared_ptr<detail::SessionState> state_;
};

}  // namespace retrace
