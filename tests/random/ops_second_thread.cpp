// Work on a thread of its own, joined at once, on tensors of its own. Wild programs only.
#include <exception>
#include <thread>

#include "machine.h"
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

// ints = with a session, data seed, width, then the policy as in a step
enum ThreadInts : size_t { kWithSession, kDataSeed, kWidth, kPolicy };

bool propose_thread(Chooser& chooser, Statement& s) {
  const int64_t policy = chooser.dice.below(kPolicyKinds);
  s.ints = {chooser.dice.below(2),
            chooser.dice.below(1 << 16),
            chooser.dice.chance(0.5) ? 4 : 64,
            policy,
            policy == kEvery ? chooser.dice.between(1, 3) : chooser.dice.below(1 << 16),
            chooser.dice.below(2)};
  return true;
}

Tensor small_step(const Call& c) {
  const int64_t width = c.i(kWidth);
  const Tensor x = make_leaf({"leaf", {}, {0}, {0, 0, 1, c.i(kDataSeed), width, width}, {}});
  const Tensor w = make_leaf({"leaf", {}, {0}, {0, 0, 1, c.i(kDataSeed) + 1, width, width}, {}});
  (x.mm(w) * 0.1).tanh().square().sum().backward();
  return x.grad() + w.grad();
}

Tensor on_thread(const Call& c) {
  Tensor result;
  std::exception_ptr error;
  std::thread([&] {
    try {
      const auto body = [&] { result = small_step(c); };
      if (c.i(kWithSession) == 0 || c.scopes == nullptr) {
        body();
      } else {
        const auto& ints = c.statement.ints;
        c.scopes->step_on_thread({"step", {}, {}, {ints.begin() + kPolicy, ints.end()}, {}}, body);
      }
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return result;
}

}  // namespace

std::vector<Operator> second_thread_operators() {
  return {{"on_thread", 3, Effect::pure, propose_thread, [](const Call& c) -> Results { return {on_thread(c)}; }}};
}

}  // namespace retrace::random
