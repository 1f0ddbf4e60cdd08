// One line on a terminal that says how far a long run is. Silent where stderr is not a terminal.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace retrace::cli
