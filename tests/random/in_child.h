// Whether something ends its process: tried in a child, so that a program that crashes can be shrunk like any other.
#pragma once

#include <functional>

namespace retrace::random {

// True if `run` ended the child by a signal. The child has only the calling thread: with LibTorch's threads at work in the
// parent it may wait for them, and is ended after some seconds, which is no crash.
bool crashes(const std::function<void()>& run);

}  // namespace retrace::random
