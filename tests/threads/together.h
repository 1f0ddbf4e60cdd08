// Running things at the same time.
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace retrace::test {

// Runs all of them at once, each on a thread of its own, starting together. Rethrows the first exception.
inline void together(const std::vector<std::function<void()>>& works) {
  std::barrier start(static_cast<std::ptrdiff_t>(works.size()));
  std::vector<std::exception_ptr> errors(works.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < works.size(); ++k) {
    threads.emplace_back([&, k] {
      start.arrive_and_wait();
      try {
        works[k]();
      } catch (...) {
        errors[k] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Runs one thing on another thread and waits for it.
inline void elsewhere(const std::function<void()>& work) { together({work}); }

}  // namespace retrace::test
