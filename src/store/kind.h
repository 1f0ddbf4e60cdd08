// Ways to hold content other than as it is. One kind per file; a new one is a file here and a line in kinds.cpp.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/graph/graph.h"

namespace retrace::store {

// Content that has been put away. Destroying it frees what it occupies.
class Stored {
 public:
  virtual ~Stored() = default;
  virtual c10::Storage take() const = 0;  // the content, in a storage of its own
  virtual int64_t bytes() const = 0;      // that it occupies on the device
  // The storage that occupies those bytes, if it comes from LibTorch's allocator; else null.
  virtual c10::Storage on_device() const { return {}; }
};

class Kind {
 public:
  virtual ~Kind() = default;
  virtual std::string name() const = 0;         // in tapes, plans and summaries
  virtual bool lossy() const { return false; }  // used only if the user asked for it
  // Puts content away, taken as elements of `dtype`. Null if this kind cannot hold it.
  virtual std::unique_ptr<const Stored> put(const c10::Storage& content, c10::ScalarType dtype) const = 0;
  // What put() would take, measured by trying it on the content, but not in LibTorch's memory: it must not show in a
  // step's bytes. None if this kind cannot hold it.
  virtual std::optional<plan::Way> measure(const c10::Storage& content, c10::ScalarType dtype) const = 0;
};

using Kinds = std::vector<const Kind*>;

// All there are, in the order in which a value's ways are listed.
Kinds kinds(bool with_lossy);
const Kind* find_kind(std::string_view name);  // null if there is none

// Adds a kind while it lives. Sessions must begin after it and end before it.
class AddedKind {
 public:
  explicit AddedKind(const Kind& kind);
  ~AddedKind();
  AddedKind(const AddedKind&) = delete;
  AddedKind& operator=(const AddedKind&) = delete;

 private:
  const Kind& kind_;
};

}  // namespace retrace::store
