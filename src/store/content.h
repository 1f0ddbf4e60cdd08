// The content of a value while the tape holds it: as it is, in a copy of our own, or put away by a kind.
#pragma once

#include <c10/core/Storage.h>

#include <memory>
#include <utility>

#include "store/kind.h"

namespace retrace::store {

class Content {
 public:
  Content() = default;
  static Content as_it_is(c10::Storage storage) { return {std::move(storage), false, nullptr}; }
  static Content copy(c10::Storage storage) { return {std::move(storage), true, nullptr}; }  // nobody else has it
  static Content rebuilt(c10::Storage storage) {  // only autograd has it too, having just unpacked it
    Content content = copy(std::move(storage));
    content.is_rebuilt_ = true;
    return content;
  }
  static Content stored(std::unique_ptr<const Stored> stored) { return {{}, true, std::move(stored)}; }

  explicit operator bool() const { return storage_ || stored_; }
  bool is_copy() const { return is_ours_ && !stored_; }
  bool is_rebuilt() const { return is_rebuilt_; }
  bool is_stored() const { return stored_ != nullptr; }
  bool is_shared() const { return storage_ && storage_.use_count() > 1; }  // somebody else has it, too

  const c10::Storage& storage() const { return storage_; }  // null if it is put away
  c10::Storage take() const { return stored_ ? stored_->take() : storage_; }
  int64_t bytes() const { return stored_ ? stored_->bytes() : static_cast<int64_t>(storage_.nbytes()); }

 private:
  Content(c10::Storage storage, bool is_ours, std::unique_ptr<const Stored> stored)
      : storage_(std::move(storage)), is_ours_(is_ours), stored_(std::move(stored)) {}

  c10::Storage storage_;
  bool is_ours_ = false;
  bool is_rebuilt_ = false;
  std::unique_ptr<const Stored> stored_;
};

}  // namespace retrace::store
