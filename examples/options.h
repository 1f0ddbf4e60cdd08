// What the examples share: their command line, and a session that counts and times its steps.
//
//   lstm --budget 60%                      as Retrace's users would run it
//   lstm --policy every:2 --steps 5
//   lstm --small --plain --budget 80%      in miniature, without Retrace, then within 80 %, in two processes
//
// In a program of your own, `examples::Session session(options);` is `retrace::Session
// session(retrace::budget("60%"));`.
//
// A program prints what it computes. The last line is one JSON object, with what that took.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <retrace/session.h>

namespace examples {

// The first thing in main(), so that it ends last and prints the last line: the figures of all sessions.
//
// Ends the program with exit code 2 if the command line cannot be meant. With several of --plain, --policy and --budget
// it returns once for each, in a process of its own, one after another. An exception that leaves main() is told, and
// ends the program with exit code 1, or 3 if it is a budget that cannot hold.
struct Options {
  Options(int argc, char** argv);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  bool small = false;       // --small: in miniature
  bool verify = false;      // --verify: every rebuilt value is compared, and memory is filled with NaN when it is freed
  int steps = 0;            // --steps N; by default 20, in miniature 5
  std::string setting;      // "plain", "keep_all", "every:2", "60%", "100MiB"
  bool budget = false;      // whether that is a budget
  bool eviction = false;    // --eviction B, a budget: each step in a session of its own, so that there is never a plan
  bool foreground = false;  // --foreground: steps under a budget wait for the full search
  std::string tape;         // --tape FILE: where the last step is written to, for `retrace explain` and its like
};

class Session;

// A training step: ends with its scope, like retrace::Step.
class Step {
 public:
  explicit Step(Session& session);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  Session& session_;
  std::chrono::steady_clock::time_point begin_;
  retrace::Step step_;  // empty in a plain run
};

// A thread's own. `options` must outlive it.
class Session {
 public:
  explicit Session(const Options& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] Step step() { return Step(*this); }

 private:
  friend class Step;
  void begin();

  const Options& options_;
  std::optional<retrace::Session> session_;  // none in a plain run
  std::optional<std::chrono::steady_clock::time_point> begin_;
  std::vector<double> step_seconds_, step_replay_seconds_;
  std::vector<int64_t> step_peak_bytes_;
  std::vector<int> step_followed_plan_;
};

}  // namespace examples
