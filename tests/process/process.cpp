// process MODE: the ways in which a process ends or doubles while Retrace records.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "training.h"

namespace {

void say(const char* text) {
  std::puts(text);
  std::fflush(stdout);  // a child would print what its parent has not
}

int exit_code(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A step that somebody else ends, or nobody.
struct OpenStep {
  retrace::Session session{retrace::recompute_all()};
  std::unique_ptr<retrace::Step> step{new retrace::Step(session.step())};
};

int fork_before_training() {
  Training training;
  at::Tensor loss;
  {
    const OpenStep open;
    loss = training.loss();
  }
  const pid_t child = fork();
  const bool works = training.is_plain(training.gradient(loss)) && training.step_works();
  if (child == 0) std::exit(works ? 42 : 1);
  say(exit_code(child) == 42 ? "child trains" : "child fails");
  say(works ? "parent trains" : "parent fails");
  return 0;
}

template <class F>
bool libtorch_refuses(F f) {
  try {
    f();
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

// LibTorch 2 refuses a backward in the child of a process that has run one, LibTorch 1 does not.
int fork_after_training() {
  Training training;
  if (!training.step_works()) return 1;
  const pid_t child = fork();
  if (child == 0) {
    const bool refuses = libtorch_refuses([&] { training.gradient(training.loss()); });
    std::exit((refuses ? libtorch_refuses([&] { training.step_works(); }) : training.step_works()) ? 42 : 1);
  }
  say(exit_code(child) == 42 ? "child does as without Retrace" : "child fails");
  say(training.step_works() ? "parent trains" : "parent fails");
  return 0;
}

// Parent and child go on from the middle of the same forward.
int fork_inside_step() {
  Training training;
  OpenStep open;
  const auto half = training.layers(training.input, 2);
  const pid_t child = fork();
  const auto gradient = training.gradient(training.layers(half, 2).mean());
  open.step.reset();
  const bool works = open.session.stats().ops_replayed > 0 && training.is_plain(gradient) && training.step_works();
  if (child == 0) std::exit(works ? 42 : 1);
  say(exit_code(child) == 42 ? "child trains" : "child fails");
  say(works ? "parent trains" : "parent fails");
  return 0;
}

int fork_inside_step_child_exits() {
  Training training;
  OpenStep open;
  const auto half = training.layers(training.input, 2);
  const pid_t child = fork();
  if (child == 0) std::exit(42);
  say(exit_code(child) == 42 ? "child exited" : "child fails");
  const auto gradient = training.gradient(training.layers(half, 2).mean());
  open.step.reset();
  say(training.is_plain(gradient) ? "parent trains" : "parent fails");
  return 0;
}

int exit_inside_step() {
  Training training;
  OpenStep open;
  const auto loss = training.loss();
  say("exiting");
  std::exit(42);
}

int exit_inside_backward() {
  Training training;
  OpenStep open;
  const auto hidden = training.layers(training.input, 2);
  hidden.register_hook([](const at::Tensor&) {
    say("exiting");
    std::exit(42);
  });
  training.gradient(training.layers(hidden, 2).mean());
  return 1;
}

// Destroyed after main() has returned and the thread-local objects are gone: graph, step, session.
int static_step() {
  struct Everything {
    Training training;
    OpenStep open;
    at::Tensor loss = training.loss();
    ~Everything() { say("destroyed"); }
  };
  static const Everything everything;
  return 42;
}

// The graph of a step that has ended. (LibTorch itself does not survive a backward in a static destructor.)
int static_graph() {
  struct Everything {
    Training training;
    std::optional<OpenStep> open{std::in_place};
    at::Tensor loss = training.loss();
    ~Everything() { say("destroyed"); }
  };
  static Everything everything;
  everything.open.reset();
  return 42;
}

int throw_inside_step() {
  Training training;
  OpenStep open;
  const auto loss = training.loss();
  throw std::runtime_error("the model's own");
}

// main() returns while another thread is in the middle of a step, for ever.
int detached_thread_inside_step() {
  std::promise<void> recorded;
  std::thread([&] {
    Training training;
    OpenStep open;
    const auto loss = training.loss();
    recorded.set_value();
    while (true) pause();
  }).detach();
  recorded.get_future().wait();
  say("returning");
  return 42;
}

// A session that has just begun to search for a plan beside training: a long chain, so that it takes a while.
struct Searching {
  Training training;
  retrace::Session session{retrace::budget("60%")};

  bool step_works() {
    at::Tensor gradient;
    {
      const auto step = session.step();
      gradient = training.gradient(training.layers(training.input, 400).mean());
    }
    return at::equal(gradient, training.gradient(training.layers(training.input, 400).mean()));
  }
  bool begin() {
    bool works = true;
    for (int i = 0; i < 3; ++i) works &= step_works();
    return works;
  }
};

int exit_while_searching() {
  auto* const searching = new Searching;  // nobody destroys it
  say(searching->begin() ? "exiting" : "fails");
  std::exit(42);
}

int static_session_searches() {
  static Searching searching;
  say(searching.begin() ? "returning" : "fails");
  return 42;
}

int fork_while_searching() {
  auto searching = std::make_unique<Searching>();
  const bool begins = searching->begin();
  const pid_t child = fork();
  if (child == 0) {
    searching.reset();  // without the thread that searches
    std::exit(42);
  }
  say(exit_code(child) == 42 ? "child exited" : "child fails");
  say(begins && searching->step_works() ? "parent trains" : "parent fails");
  return 0;
}

constexpr struct {
  const char* name;
  int (*run)();
} kModes[] = {
    {"fork_before_training", fork_before_training},
    {"fork_after_training", fork_after_training},
    {"fork_inside_step", fork_inside_step},
    {"fork_inside_step_child_exits", fork_inside_step_child_exits},
    {"exit_inside_step", exit_inside_step},
    {"exit_inside_backward", exit_inside_backward},
    {"static_step", static_step},
    {"static_graph", static_graph},
    {"throw_inside_step", throw_inside_step},
    {"detached_thread_inside_step", detached_thread_inside_step},
    {"exit_while_searching", exit_while_searching},
    {"static_session_searches", static_session_searches},
    {"fork_while_searching", fork_while_searching},
};

}  // namespace

int main(int, char** argv) {
  for (const auto& mode : kModes) {
    if (std::strcmp(mode.name, argv[1]) == 0) return mode.run();
  }
  return 2;
}
