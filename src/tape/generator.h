// Random operators draw the same numbers again, and nobody else notices.
#pragma once

#include <ATen/core/Generator.h>

namespace retrace {

// A generator in the state `generator` has now. Drawing from either leaves the other alone.
at::Generator snapshot(at::Generator generator);

const at::Generator& default_generator();

size_t generator_bytes();  // what one snapshot takes

// Whether `now` has drawn since `before` was taken from it.
bool has_drawn(const at::Generator& before, at::Generator now);

// While one lives, the process's default generator is in the given state; then it is again as it was. For operators
// that take no generator argument. Another thread that draws meanwhile draws from this state: replays wait for each
// other, but cannot stop the program's own threads.
class DefaultGeneratorSwap {
 public:
  explicit DefaultGeneratorSwap(const at::Generator& state);
  ~DefaultGeneratorSwap();
  DefaultGeneratorSwap(const DefaultGeneratorSwap&) = delete;
  DefaultGeneratorSwap& operator=(const DefaultGeneratorSwap&) = delete;

 private:
  at::Generator before_;
};

}  // namespace retrace
