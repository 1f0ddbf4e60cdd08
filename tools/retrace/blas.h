// Which BLAS LibTorch multiplies matrices with.
#pragma once

namespace retrace::cli {

// With only Debian's reference BLAS installed everything works, about 30 times slower, and every ratio the benchmarks
// print would be about that. Says so on stderr, once per process, and what to install.
void warn_of_reference_blas();

}  // namespace retrace::cli
