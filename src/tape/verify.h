// Whether what a handle gives back is what forward computed.
#pragma once

#include <ATen/core/Tensor.h>

#include "tape/tape.h"

namespace retrace {

// Throws InternalError that names the op if the content is not what forward computed. The tensor in which forward
// computed it always passes, whatever has become of it: plain autograd would go on with that, too. Compares with the
// handle's fingerprint, or if it has none, with the mark of the content.
void verify_unpacked(Tape& tape, const Handle& handle, const c10::Storage& storage, const at::Tensor& tensor);

}  // namespace retrace
