#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace retrace::cli {

size_t terminal_columns() {
  constexpr size_t kUsual = 80, kLeast = 40, kMost = 160;
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::clamp<size_t>(size.ws_col, kLeast, kMost);
}

}  // namespace retrace::cli
