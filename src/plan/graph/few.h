// A vector of which most hold few elements, and then take no memory beside their own. For plain data only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace retrace::plan {

template <class T, uint32_t N>
class Few {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;

  Few() = default;
  Few(std::initializer_list<T> list) { append(list.begin(), list.size()); }
  Few(const Few& other) { append(other.data(), other.size()); }
  Few(Few&& other) noexcept { take(other); }
  Few& operator=(const Few& other) {
    if (this == &other) return *this;
    clear();
    append(other.data(), other.size());
    return *this;
  }
  Few& operator=(Few&& other) noexcept {
    if (this == &other) return *this;
    free_heap();
    take(other);
    return *this;
  }
  ~Few() { free_heap(); }

  T* data() { return heap_ ? heap_ : few_; }
  const T* data() const { return heap_ ? heap_ : few_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return *data(); }
  const T& front() const { return *data(); }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void clear() { size_ = 0; }
  void push_back(T value) {
    reserve(size_ + 1);
    data()[size_++] = value;
  }
  void resize(size_t size) {
    reserve(size);
    if (size > size_) std::fill(data() + size_, data() + size, T());
    size_ = static_cast<uint32_t>(size);
  }
  bool operator==(const Few& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  void reserve(size_t size) {
    if (size <= capacity_) return;
    const size_t capacity = std::max<size_t>(size, 2 * size_t{capacity_});
    T* const larger = new T[capacity];
    std::copy(begin(), end(), larger);
    free_heap();
    heap_ = larger;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void append(const T* from, size_t count) {
    reserve(size_ + count);
    std::copy(from, from + count, data() + size_);
    size_ += static_cast<uint32_t>(count);
  }
  void take(Few& other) noexcept {
    heap_ = std::exchange(other.heap_, nullptr);
    capacity_ = std::exchange(other.capacity_, N);
    size_ = std::exchange(other.size_, 0);
    std::copy(std::begin(other.few_), std::end(other.few_), few_);
  }
  void free_heap() noexcept { delete[] heap_; }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  T* heap_ = nullptr;  // once they are not few
  T few_[N];
};

}  // namespace retrace::plan
