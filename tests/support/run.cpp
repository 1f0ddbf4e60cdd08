#include "support/run.h"

#include <ATen/Context.h>

#include <pthread.h>

#include <exception>
#include <optional>

#include "support/counting.h"

namespace retrace::test {

namespace {

std::optional<Policy> policy_of(How how) {
  switch (how) {
    case How::session_keep_all:
      return keep_all();
    case How::in_session:
    case How::session_recompute_all:
      return recompute_all();
    case How::session_every:
      return every(2);
    case How::session_selective:
      return selective();
    default:
      return std::nullopt;
  }
}

Tensors call(const Program& program, How how) {
  const auto policy = policy_of(how);
  if (!policy) return program(Wrap(how));
  Session session(*policy, {.verify = Verify::always});
  const auto step = session.step();
  return program(Wrap(how));
}

void expect_same_outcome(const Outcome& plain, const Program& program, How how) {
  SCOPED_TRACE("run as " + name(how));
  const NothingLeaks nothing_leaks;
  const Outcome ours = run(program, how);
  EXPECT_SAME_BITS(plain.results, ours.results);
  EXPECT_TRUE(same_bits(plain.generator, ours.generator)) << "the default generator's state differs afterwards";
}

}  // namespace

std::string name(How how) {
  switch (how) {
    case How::plain:
      return "plain";
    case How::checkpoint:
      return "checkpoint";
    case How::nested:
      return "checkpoint in checkpoint";
    case How::kept:
      return "checkpoint that keeps all";
    case How::in_session:
      return "checkpoint in a session";
    case How::session_keep_all:
      return "session keep_all";
    case How::session_recompute_all:
      return "session recompute_all";
    case How::session_every:
      return "session every:2";
    case How::session_selective:
      return "session selective";
  }
  return "?";
}

const std::vector<How>& all_but_plain() {
  static const std::vector<How> ways = {How::checkpoint,    How::nested,           How::kept,
                                        How::in_session,    How::session_keep_all, How::session_recompute_all,
                                        How::session_every, How::session_selective};
  return ways;
}

Outcome run(const Program& program, How how, uint64_t seed) {
  at::manual_seed(seed);
  Outcome outcome;
  outcome.results = call(program, how);
  outcome.generator = generator_state();
  return outcome;
}

void expect_same_as_plain(const Program& program, const std::vector<How>& ways) {
  const Outcome plain = run(program, How::plain);
  for (const How how : ways) expect_same_outcome(plain, program, how);
}

namespace {

struct Job {
  const std::function<void()>& work;
  std::exception_ptr error;
};

void* run_job(void* argument) {
  auto* job = static_cast<Job*>(argument);
  try {
    job->work();
  } catch (...) {
    job->error = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void on_small_stack(const std::function<void()>& work) {
  constexpr size_t kStackBytes = 768 << 10;
  Job job{work, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  const int started = pthread_create(&thread, &attributes, run_job, &job);
  pthread_attr_destroy(&attributes);
  ASSERT_EQ(started, 0);
  pthread_join(thread, nullptr);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace retrace::test
