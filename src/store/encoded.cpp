#include "store/encoded.h"

#include <chrono>

#include "device/device.h"

namespace retrace::store {
namespace {

// What is smaller gains less than its bookkeeping takes.
constexpr size_t kSmallestBytes = 4096;

c10::Storage new_storage(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, cpu().allocator(), /*resizable=*/true);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(cpu().now() - start).count();
}

class Encoded final : public Stored {
 public:
  explicit Encoded(const Encoding& encoding) : encoding_(encoding), encoded_(new_storage(encoded_bytes(encoding))) {}

  bool fill(const c10::Storage& content) {
    return encode(encoding_, content.data_ptr().get(), encoded_.data_ptr().get());
  }
  c10::Storage take() const override {
    c10::Storage content = new_storage(plain_bytes(encoding_));
    decode(encoding_, encoded_.data_ptr().get(), content.data_ptr().get());
    return content;
  }
  int64_t bytes() const override { return static_cast<int64_t>(encoded_.nbytes()); }
  c10::Storage on_device() const override { return encoded_; }

 private:
  Encoding encoding_;
  c10::Storage encoded_;
};

}  // namespace

std::optional<Encoding> EncodedKind::worthwhile(const c10::Storage& content, c10::ScalarType dtype) const {
  if (content.nbytes() < kSmallestBytes) return std::nullopt;
  return find(content.data_ptr().get(), content.nbytes(), dtype);
}

std::unique_ptr<const Stored> EncodedKind::put(const c10::Storage& content, c10::ScalarType dtype) const {
  const auto encoding = worthwhile(content, dtype);
  if (!encoding) return nullptr;
  auto stored = std::make_unique<Encoded>(*encoding);
  return stored->fill(content) ? std::move(stored) : nullptr;
}

std::optional<plan::Way> EncodedKind::measure(const c10::Storage& content, c10::ScalarType dtype) const {
  auto start = cpu().now();
  const auto encoding = worthwhile(content, dtype);
  if (!encoding) return std::nullopt;
  std::vector<char> encoded(encoded_bytes(*encoding));
  if (!encode(*encoding, content.data_ptr().get(), encoded.data())) return std::nullopt;
  plan::Way way;
  way.kind = name();
  way.bytes = static_cast<int64_t>(encoded.size());
  way.lossy = lossy();
  way.store_seconds = seconds_since(start);
  std::vector<char> plain(content.nbytes());
  start = cpu().now();
  decode(*encoding, encoded.data(), plain.data());
  way.load_seconds = seconds_since(start);
  return way;
}

}  // namespace retrace::store
