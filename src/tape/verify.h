// Whether what a handle gives back is what forward computed.
#pragma once

#include "tape/tape.h"

namespace retrace {

// `storage` is what a handle is about to give back. Throws InternalError that names the op if it was rebuilt and is not
// what forward computed. The storage in which forward computed it always passes, whatever has become of it: plain
// autograd would go on with that, too. Compares with the handle's fingerprint, or if it has none, with the mark of the
// content.
void verify_unpacked(Tape& tape, const Handle& handle, const c10::Storage& storage);

}  // namespace retrace
