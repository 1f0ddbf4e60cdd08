#include "store/encoded_value.h"

#include <c10/core/CPUAllocator.h>

#include <chrono>
#include <vector>

namespace retrace {
namespace {

c10::Storage new_storage(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, c10::GetCPUAllocator(), /*resizable=*/true);
}

// What is smaller gains less than its bookkeeping takes.
constexpr size_t kSmallestBytes = 4096;

// A guess suffices for two values: encode() finds out whether it was right.
std::optional<store::Encoding> encoding_of(const c10::Storage& storage, c10::ScalarType dtype, bool bfloat16) {
  const void* const data = storage.data_ptr().get();
  const size_t element = c10::elementSize(dtype);
  if (storage.nbytes() < kSmallestBytes) return std::nullopt;
  if (const auto bits = store::guess_bits(data, storage.nbytes(), element)) return bits;
  auto found = store::find_encoding(data, storage.nbytes(), element, c10::isFloatingType(dtype));
  if (!found && bfloat16 && dtype == c10::kFloat) found = store::bfloat16_encoding(storage.nbytes(), element);
  return found;
}

const char* kind_of(store::Code code) {
  if (code <= store::Code::bits_64) return "bits";
  return code == store::Code::bfloat16 ? "bfloat16" : "narrow";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::shared_ptr<const EncodedValue> EncodedValue::make(const c10::Storage& storage, c10::ScalarType dtype,
                                                       bool bfloat16) {
  const auto encoding = encoding_of(storage, dtype, bfloat16);
  if (!encoding) return nullptr;
  auto value = std::shared_ptr<EncodedValue>(new EncodedValue(*encoding, storage.nbytes()));
  value->encoded_ = new_storage(store::encoded_bytes(*encoding));
  const bool done = store::encode(*encoding, storage.data_ptr().get(), value->encoded_.data_ptr().get());
  return done ? value : nullptr;
}

std::optional<plan::Way> EncodedValue::measure(const c10::Storage& storage, c10::ScalarType dtype, bool bfloat16) {
  auto start = std::chrono::steady_clock::now();
  const auto encoding = encoding_of(storage, dtype, bfloat16);
  if (!encoding) return std::nullopt;
  // Outside LibTorch's allocator: measuring must not show in the step's bytes.
  std::vector<char> encoded(store::encoded_bytes(*encoding));
  if (!store::encode(*encoding, storage.data_ptr().get(), encoded.data())) return std::nullopt;
  plan::Way measured;
  measured.kind = kind_of(encoding->code);
  measured.bytes = static_cast<int64_t>(encoded.size());
  measured.lossy = encoding->code == store::Code::bfloat16;
  measured.store_seconds = seconds_since(start);
  std::vector<char> plain(storage.nbytes());
  start = std::chrono::steady_clock::now();
  store::decode(*encoding, encoded.data(), plain.data());
  measured.load_seconds = seconds_since(start);
  return measured;
}

c10::Storage EncodedValue::decode() const {
  c10::Storage plain = new_storage(plain_bytes_);
  store::decode(encoding_, encoded_.data_ptr().get(), plain.data_ptr().get());
  return plain;
}

}  // namespace retrace
