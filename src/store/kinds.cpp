#include <algorithm>
#include <mutex>

#include "store/encoded.h"
#include "store/kind.h"

namespace retrace::store {
namespace {

std::mutex mutex;

Kinds& all() {
  static auto* const list = new Kinds{&bits_kind(), &narrow_kind(), &bfloat16_kind()};
  return *list;
}

}  // namespace

Kinds kinds(bool with_lossy) {
  const std::lock_guard lock(mutex);
  Kinds allowed;
  std::copy_if(all().begin(), all().end(), std::back_inserter(allowed),
               [&](const Kind* kind) { return with_lossy || !kind->lossy(); });
  return allowed;
}

const Kind* find_kind(std::string_view name) {
  const std::lock_guard lock(mutex);
  const auto found = std::find_if(all().begin(), all().end(), [&](const Kind* kind) { return kind->name() == name; });
  return found == all().end() ? nullptr : *found;
}

AddedKind::AddedKind(const Kind& kind) : kind_(kind) {
  const std::lock_guard lock(mutex);
  all().push_back(&kind);
}

AddedKind::~AddedKind() {
  const std::lock_guard lock(mutex);
  std::erase(all(), &kind_);
}

}  // namespace retrace::store
