// Which of the ids from 0 on are in it, in their order. To go over it takes time for the ids that are in it, and hardly
// any for those that are not.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace retrace {

class IdSet {
 public:
  void insert(int32_t id) {
    const size_t word = static_cast<size_t>(id) / kBits;
    if (word >= words_.size()) words_.resize(word + 1);
    words_[word] |= uint64_t{1} << static_cast<size_t>(id) % kBits;
  }
  void erase(int32_t id) {
    const size_t word = static_cast<size_t>(id) / kBits;
    if (word < words_.size()) words_[word] &= ~(uint64_t{1} << static_cast<size_t>(id) % kBits);
  }
  void clear() { words_.clear(); }
  // The first at or after `id` that `is_in`; what is not is erased on the way.
  int32_t from(int32_t id, auto is_in) {
    for (id = from(id); id >= 0 && !is_in(id); id = from(id + 1)) erase(id);
    return id;
  }

  // The first at or after `id`, and the last before it; -1 if there is none.
  int32_t from(int32_t id) const {
    size_t word = static_cast<size_t>(id) / kBits;
    if (word >= words_.size()) return -1;
    uint64_t bits = words_[word] & ~uint64_t{0} << static_cast<size_t>(id) % kBits;
    while (bits == 0) {
      if (++word == words_.size()) return -1;
      bits = words_[word];
    }
    return static_cast<int32_t>(word * kBits + static_cast<size_t>(std::countr_zero(bits)));
  }
  int32_t before(int32_t id) const {
    size_t word = static_cast<size_t>(id) / kBits;
    uint64_t bits = 0;
    if (word < words_.size()) {
      bits = words_[word] & ~(~uint64_t{0} << static_cast<size_t>(id) % kBits);
    } else {
      word = words_.size();
    }
    while (bits == 0) {
      if (word == 0) return -1;
      bits = words_[--word];
    }
    return static_cast<int32_t>(word * kBits + kBits - 1 - static_cast<size_t>(std::countl_zero(bits)));
  }

 private:
  static constexpr size_t kBits = 64;
  std::vector<uint64_t> words_;
};

// Marks on ids that are all taken away at once.
class Marks {
 public:
  void begin(size_t ids) {  // without marks, for so many
    if (marks_.size() < ids) marks_.resize(ids + ids / 2);
    ++current_;
  }
  void set(int32_t id) { marks_[static_cast<size_t>(id)] = current_; }
  bool has(int32_t id) const { return marks_[static_cast<size_t>(id)] == current_; }

 private:
  std::vector<uint32_t> marks_;
  uint32_t current_ = 0;
};

}  // namespace retrace
