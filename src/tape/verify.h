// Whether what a handle gives back is what forward computed.
#pragma once

#include <ATen/core/Tensor.h>

#include "tape/tape.h"

namespace retrace {

// The tensor that autograd itself would have saved is, whatever has become of it: then plain autograd goes on with that, too.
// Without a fingerprint of this very tensor, the mark that every content gets must do. Throws InternalError that names the op.
void verify_unpacked(Tape& tape, const Handle& handle, const c10::Storage& storage, const at::Tensor& tensor);

}  // namespace retrace
