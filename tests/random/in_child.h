// Whether something ends its process: tried in a child, so that a program that crashes can be shrunk like any other.
#pragma once

#include <functional>

namespace retrace::random {

// True if `run` ended the child by a signal. The child has only the calling thread, and waits in vain for any other
// that LibTorch had started; it is then ended after some seconds, which is no crash.
bool crashes(const std::function<void()>& run);

}  // namespace retrace::random
