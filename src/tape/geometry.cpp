#include "tape/geometry.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <sstream>

#include "device/device.h"
#include "libtorch/compat.h"

namespace retrace {

Geometry Geometry::of(const at::Tensor& tensor) {
  Geometry g;
  g.sizes.append(tensor.sizes().begin(), tensor.sizes().end());
  g.strides.append(tensor.strides().begin(), tensor.strides().end());
  g.offset = tensor.storage_offset();
  g.dtype = tensor.scalar_type();
  g.conjugated = tensor.is_conj();
  g.negated = tensor.is_neg();
  return g;
}

bool Geometry::is_of(const at::Tensor& tensor) const {
  return tensor.sizes().equals(sizes) && tensor.strides().equals(strides) && tensor.storage_offset() == offset &&
         tensor.scalar_type() == dtype && tensor.is_conj() == conjugated && tensor.is_neg() == negated;
}

const Geometry* GeometryTable::find_or_add(const at::Tensor& tensor) {
  auto hash = static_cast<uint64_t>(tensor.storage_offset());
  for (const int64_t size : tensor.sizes()) hash = (hash + static_cast<uint64_t>(size)) * 0x9E3779B97F4A7C15u;
  const Geometry*& entry = recent_[(hash >> 32u) % kRecent];
  if (!entry || !entry->is_of(tensor)) entry = &all_.emplace_back(Geometry::of(tensor));
  return entry;
}

Geometry Geometry::flat(int64_t bytes, at::ScalarType dtype) {
  Geometry g;
  g.sizes.push_back(bytes / static_cast<int64_t>(c10::elementSize(dtype)));
  g.strides.push_back(1);
  g.dtype = dtype;
  return g;
}

at::Tensor Geometry::over(c10::Storage storage) const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  if (conjugated) tensor._set_conj(true);
  if (negated) tensor._set_neg(true);
  return tensor;
}

int64_t Geometry::bytes() const {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : sizes) bytes *= size;
  return bytes;
}

std::pair<int64_t, int64_t> Geometry::dense_byte_range() const {
  // Dense: sorted by stride, each stride is the product of the sizes below it.
  c10::SmallVector<size_t, 4> dims;
  int64_t numel = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    numel *= sizes[i];
    if (sizes[i] != 1) dims.push_back(i);
  }
  if (numel == 0) return {0, 0};
  std::sort(dims.begin(), dims.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (const size_t d : dims) {
    if (strides[d] != expected) return {0, 0};
    expected *= sizes[d];
  }
  const auto item = static_cast<int64_t>(c10::elementSize(dtype));
  return {offset * item, (offset + numel) * item};
}

std::string Geometry::describe() const {
  std::ostringstream text;
  text << dtype << " [";
  for (size_t i = 0; i < sizes.size(); ++i) text << (i ? ", " : "") << sizes[i];
  text << "]";
  return text.str();
}

bool understood(const at::Tensor& tensor) {
  // What LibTorch gives any dense CPU tensor, and the two flags a Geometry knows.
  static const uint64_t kPlain =
      (Geometry{}.over(c10::Storage(c10::Storage::use_byte_size_t(), 0, cpu().allocator(), false)).key_set() |
       c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}))
          .raw_repr();
  if ((tensor.key_set().raw_repr() & ~kPlain) != 0) return false;
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage() || compat::has_names(tensor)) return false;
  const c10::Storage& storage = impl->storage();
  return storage && (storage.data_ptr().get() != nullptr || impl->numel() == 0);
}

}  // namespace retrace
