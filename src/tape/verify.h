// Whether what a handle gives back is what forward computed.
#pragma once

#include "tape/tape.h"

namespace retrace {

// `storage` is what a handle is about to give back. Throws InternalError that names the op if it was rebuilt and is not what
// forward computed. The storage that autograd itself would have saved is right whatever has become of it: plain autograd goes
// on with that, too.
void verify_unpacked(Tape& tape, const Handle& handle, const c10::Storage& storage);

}  // namespace retrace
