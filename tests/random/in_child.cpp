#include "in_child.h"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

namespace retrace::random {

namespace {

constexpr unsigned kSeconds = 20;

}  // namespace

bool crashes(const std::function<void()>& run) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, SIG_DFL);
    alarm(kSeconds);
    run();
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM;
}

}  // namespace retrace::random
