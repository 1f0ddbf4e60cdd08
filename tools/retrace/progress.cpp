#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace retrace::cli {

namespace {
constexpr int64_t kBarWidth = 24;
constexpr const char* kWipe = "\r\033[K";
}  // namespace

Progress::Progress(int64_t total) : terminal_(isatty(STDERR_FILENO) == 1), total_(std::max<int64_t>(total, 1)) {}

Progress::~Progress() {
  if (terminal_) std::cerr << kWipe << std::flush;
}

void Progress::show(const std::string& what) const {
  if (!terminal_) return;
  const int64_t filled = kBarWidth * std::min(done_, total_) / total_;
  std::cerr << kWipe << '[' << std::string(filled, '#') << std::string(kBarWidth - filled, '.') << "] "
            << 100 * done_ / total_ << "%  " << what << std::flush;
}

}  // namespace retrace::cli
