// Whether a root is copied before an operator overwrites it. The recorder (tape/arguments.h) and predictions
// (policy/predicted_step.h) follow this rule.
#pragma once

#include <cstdint>

namespace retrace {

// A larger root is never copied: what depends on it is rebuilt first and held.
inline constexpr int64_t kSmallRootBytes = 64 * 1024;

// `is_needed`: something saved is to be rebuilt from the old content, or may come to be. If not, the copy would serve
// only to run the overwriting operator again. That makes nothing but what it overwrites (`only_writes`: an optimizer's
// update, say), or as a rule something as large as what it reads; and the program has the new content anyway.
inline bool copy_may_pay(bool is_needed, bool only_writes, int64_t read_bytes, int64_t root_bytes) {
  return is_needed || (!only_writes && read_bytes > root_bytes);
}

}  // namespace retrace
