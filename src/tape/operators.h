// What the recorder must know about an operator beyond running it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

namespace retrace {

struct OpTraits {
  c10::OperatorName name{"", ""};
  uint64_t name_hash = 0;          // plan::name_hash()
  bool draws = false;              // random: replayed from the generator state that was recorded
  bool may_draw = false;           // not LibTorch's own: the generator before and after is compared
  int generator_argument = -1;     // position, or -1
  std::vector<bool> writes;        // per argument: written in place, says the schema
  std::vector<int> silent_writes;  // further arguments it writes, though the schema does not say so ...
  int silent_when = -1;            // ... and if >= 0, only when this bool argument is true
  bool overwrites = false;         // what it writes does not depend on what was there
  bool only_writes = false;        // all that it returns, if anything, are arguments that it wrote
  bool shape_only = false;     // looks only at the shape of its first argument (empty_like, zeros_like, new_full, ...)
  bool uninitialised = false;  // returns memory nobody has written (empty and its kin)
  bool batch_norm = false;     // see tape/shortcut.h
  int scratch_output = -1;     // a result for its own backward, which is not the same bit for bit when rebuilt
  bool opaque = false;         // rearranges storages: nothing it touches is rebuilt
  bool admits_views = false;   // all that it returns are views, says the schema
  bool view = false;           // only makes views: looks at no content
  bool collective = false;     // c10d: writes every tensor it is given, at any time until somebody has waited for it
  bool silent_about_writes = false;  // not LibTorch's own, and annotates no argument: may write any of them
  mutable std::atomic<uint64_t> found_writing{0};  // a bit per argument that it was found to have written
};

// Cached for the life of the process.
const OpTraits& traits_of(const c10::OperatorHandle& op);

// The names of all operators that are known to write an argument silently, of any device. Not every LibTorch registers
// all of them.
std::vector<std::string> silent_operators();

}  // namespace retrace
