// One line on a terminal that says how far a long run is. Silent where stderr is not a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

namespace retrace::cli {

class Progress {
 public:
  explicit Progress(int64_t total);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& what) const;
  void advance() { ++done_; }

 private:
  bool terminal_;
  int64_t total_;
  int64_t done_ = 0;
};

// The same for one piece of work that cannot tell how far it is: after a second it says what goes on, and for how long.
class Waiting {
 public:
  explicit Waiting(std::string what);
  ~Waiting();  // wipes the line
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace retrace::cli
