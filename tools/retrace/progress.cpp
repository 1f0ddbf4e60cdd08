#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>

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
            << 100 * std::min(done_, total_) / total_ << "%  " << what << std::flush;
}

Waiting::Waiting(std::string what) {
  if (isatty(STDERR_FILENO) != 1) return;
  thread_ = std::jthread([what = std::move(what)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    for (int seconds = 1;
         !wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; }) && !stop.stop_requested();
         ++seconds) {
      std::cerr << kWipe << what << ", " << seconds << " s" << std::flush;
    }
    std::cerr << kWipe << std::flush;
  });
}

Waiting::~Waiting() = default;

}  // namespace retrace::cli
