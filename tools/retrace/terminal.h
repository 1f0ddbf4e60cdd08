// How wide the place is that output goes to.
#pragma once

#include <cstddef>

namespace retrace::cli {

size_t terminal_columns();  // of standard output; 80 in a pipe

}  // namespace retrace::cli
