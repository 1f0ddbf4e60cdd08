#include "options.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <mutex>
#include <sstream>

#include <retrace/errors.h>
#include <retrace/memory.h>

namespace examples {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kFailed = 1, kBadInput = 2, kRefused = 3;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// -- Figures --

// Of all sessions that have ended; several threads may have had one.
struct Figures {
  std::mutex mutex;
  double seconds = 0;  // of the longest: from its first step to its end
  int64_t operators = 0, plans = 0;
  double planning_seconds = 0;
  std::vector<double> step_seconds, step_replay_seconds;
  std::vector<int64_t> step_peak_bytes;
  std::vector<int> step_followed_plan;
};
Figures figures;

template <class T>
std::string list(const std::vector<T>& values) {
  std::ostringstream text;
  for (const T& value : values) text << (text.tellp() > 0 ? ", " : "") << value;
  return "[" + text.str() + "]";
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& some) {
  all.insert(all.end(), some.begin(), some.end());
}

// -- The command line --

[[noreturn]] void bad_input(const char* program, const std::string& what) {
  std::cerr << program << ": " << what << ", nothing was run.\n"
            << "usage: " << program
            << " [--small] [--verify] [--steps N] [--tape FILE] [--foreground] [--plain | --policy P | --budget B | "
               "--eviction B]...\n"
            << "       P is keep_all, selective, every:N or recompute_all; B is 60%, 100MiB or a number of bytes\n";
  std::exit(kBadInput);
}

retrace::Policy policy_of(const std::string& name) {
  if (name == "keep_all") return retrace::keep_all();
  if (name == "selective") return retrace::selective();
  if (name == "recompute_all") return retrace::recompute_all();
  if (name.starts_with("every:")) return retrace::every(std::atoll(name.c_str() + std::strlen("every:")));
  throw retrace::UsageError("no policy is called '" + name + "'");
}

struct Setting {
  std::string name = "plain";
  bool budget = false;
  bool eviction = false;
};

// Returns in the children, one after another; the parent waits for each and exits.
Setting run_each(const std::vector<Setting>& settings) {
  int code = 0;
  for (const Setting& setting : settings) {
    const pid_t child = fork();
    if (child == 0) return setting;
    int status = 0;
    waitpid(child, &status, 0);
    const int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended != 0 && ended != kRefused) std::cout << "{\"exit_code\": " << ended << "}" << std::endl;
    code = std::max(code, ended);
  }
  std::_Exit(code);
}

[[noreturn]] void tell_uncaught() {
  int code = kFailed;
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const retrace::InfeasibleBudget& refusal) {
    std::cerr << refusal.what() << std::endl;
    std::cout << "{\"smallest_bytes\": " << refusal.smallest_bytes << "}" << std::endl;
    code = kRefused;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
  }
  std::cout.flush();
  std::_Exit(code);
}

}  // namespace

Options::Options(int argc, char** argv) {
  std::vector<Setting> settings;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] {
      if (++i == argc) bad_input(argv[0], option + " needs a value");
      return std::string(argv[i]);
    };
    try {
      if (option == "--small") {
        small = true;
      } else if (option == "--verify") {
        verify = true;
      } else if (option == "--steps") {
        steps = std::atoi(value().c_str());
      } else if (option == "--tape") {
        tape = value();
      } else if (option == "--foreground") {
        foreground = true;
      } else if (option == "--plain") {
        settings.push_back({"plain"});
      } else if (option == "--policy") {
        settings.push_back({policy_of(value()).name()});
      } else if (option == "--budget" || option == "--eviction") {
        settings.push_back({retrace::budget(value()).text(), true, option == "--eviction"});
      } else {
        bad_input(argv[0], "no option is called '" + option + "'");
      }
    } catch (const retrace::UsageError& error) {
      bad_input(argv[0], error.what());
    }
  }
  if (steps < 1) steps = small ? 5 : 20;
  std::set_terminate(tell_uncaught);
  if (settings.empty()) settings.emplace_back();
  const Setting chosen = settings.size() == 1 ? settings[0] : run_each(settings);
  setting = chosen.name;
  budget = chosen.budget;
  eviction = chosen.eviction;
}

Options::~Options() {
  const auto highest = std::max_element(figures.step_peak_bytes.begin(), figures.step_peak_bytes.end());
  std::cout << "{\"setting\": \"" << setting << "\", \"seconds\": " << figures.seconds
            << ", \"peak_bytes\": " << (highest == figures.step_peak_bytes.end() ? 0 : *highest)
            << ", \"end_bytes\": " << retrace::memory::live_bytes() << ", \"operators\": " << figures.operators
            << ", \"plans\": " << figures.plans << ", \"planning_seconds\": " << figures.planning_seconds
            << ", \"replay_seconds\": " << retrace::stats().replay_seconds
            << ", \"step_seconds\": " << list(figures.step_seconds)
            << ", \"step_replay_seconds\": " << list(figures.step_replay_seconds)
            << ", \"step_peak_bytes\": " << list(figures.step_peak_bytes)
            << ", \"step_followed_plan\": " << list(figures.step_followed_plan) << "}" << std::endl;
}

// -- Sessions --

Session::Session(const Options& options) : options_(options) {
  if (options.verify) retrace::memory::set_poison(true);
  begin();
}

void Session::begin() {
  retrace::SessionOptions how;
  if (options_.verify) how.verify = retrace::Verify::always;
  if (options_.foreground) how.planning = retrace::Planning::foreground;
  if (options_.eviction) how.verify = retrace::Verify::never;  // or every step would, being the first
  if (options_.budget) {
    session_.emplace(retrace::budget(options_.setting), how);
  } else if (options_.setting != "plain") {
    session_.emplace(policy_of(options_.setting), how);
  }
}

Session::~Session() {
  const retrace::Stats stats = session_ ? session_->stats() : retrace::Stats();
  if (session_ && !options_.tape.empty()) session_->save_tape(options_.tape);
  session_.reset();  // its end belongs to the time of the whole run
  const double seconds = begin_ ? seconds_since(*begin_) : 0;
  const std::lock_guard lock(figures.mutex);
  figures.seconds = std::max(figures.seconds, seconds);
  figures.operators += stats.ops_recorded;
  figures.plans += stats.plans_made;
  figures.planning_seconds += stats.planning_seconds;
  append(figures.step_seconds, step_seconds_);
  append(figures.step_replay_seconds, step_replay_seconds_);
  append(figures.step_peak_bytes, step_peak_bytes_);
  append(figures.step_followed_plan, step_followed_plan_);
}

Step::Step(Session& session) : session_(session), begin_(Clock::now()) {
  if (!session.begin_) session.begin_ = begin_;
  if (session.options_.eviction) session.begin();
  retrace::memory::reset_peak();
  if (session.session_) step_ = session.session_->step();
}

Step::~Step() {
  step_.end();
  session_.step_seconds_.push_back(seconds_since(begin_));
  session_.step_peak_bytes_.push_back(retrace::memory::peak_bytes());
  const retrace::Stats stats = session_.session_ ? session_.session_->stats() : retrace::Stats();
  session_.step_replay_seconds_.push_back(stats.replay_seconds);
  session_.step_followed_plan_.push_back(stats.followed_plan ? 1 : 0);
}

}  // namespace examples
