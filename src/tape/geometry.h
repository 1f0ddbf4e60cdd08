// How a tensor looks at its storage. A view is nothing more than this.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <deque>

namespace retrace {

struct Geometry {
  c10::SmallVector<int64_t, 4> sizes;
  c10::SmallVector<int64_t, 4> strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::kFloat;
  bool conjugated = false;
  bool negated = false;

  static Geometry of(const at::Tensor& tensor);
  static Geometry flat(int64_t bytes, at::ScalarType dtype);  // all of a storage, one after the other

  // A tensor of this geometry over `storage`, outside autograd. Checks nothing: over an empty storage it makes a
  // stand-in for operators that look only at the shape.
  at::Tensor over(c10::Storage storage) const;

  int64_t bytes() const;  // of its elements

  // The bytes of the storage the elements occupy, when they fill them without gaps; {0, 0} otherwise.
  std::pair<int64_t, int64_t> dense_byte_range() const;

  bool is_of(const at::Tensor& tensor) const;
  std::string describe() const;  // "Float [4, 256, 384]"
};

// Geometries, shared by tensors that look the same: most tensors of a step look like one that came shortly before.
class GeometryTable {
 public:
  const Geometry* find_or_add(const at::Tensor& tensor);  // valid as long as the table
  size_t bytes() const { return all_.size() * sizeof(Geometry); }

 private:
  static constexpr size_t kRecent = 64;
  std::deque<Geometry> all_;
  std::array<const Geometry*, kRecent> recent_ = {};  // by a hash
};

// Whether storage and geometry say everything about this tensor. Sparse, quantized, opaque, named, wrapped or
// storage-less tensors are not understood, and kept.
bool understood(const at::Tensor& tensor);

}  // namespace retrace
