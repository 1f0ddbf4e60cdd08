#include "blas.h"

#include <dlfcn.h>

#include <filesystem>
#include <iostream>
#include <string>

namespace retrace::cli {

namespace {

// Asks the dynamic linker which file sgemm_ comes from. The list of mapped files would not do: LAPACK may bring
// OpenBLAS along while matrix products still go to the reference library. Debian keeps each BLAS in a folder of its own
// (blas/, openblas-openmp/, blis-pthread/) with a libblas.so.3 in it. A LibTorch with MKL built in exports no sgemm_.
bool reference_blas() {
  void* const sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info where{};
  if (sgemm == nullptr || dladdr(sgemm, &where) == 0 || where.dli_fname == nullptr) return false;
  std::error_code unreadable;
  const std::filesystem::path file = std::filesystem::canonical(where.dli_fname, unreadable);
  if (unreadable || !file.filename().string().starts_with("libblas.so")) return false;
  const std::string folder = file.parent_path().string();
  for (const char* fast : {"openblas", "blis", "atlas", "mkl"}) {
    if (folder.find(fast) != std::string::npos) return false;
  }
  return true;
}

}  // namespace

void warn_of_reference_blas() {
  static bool asked = false;
  if (asked) return;
  asked = true;
  if (!reference_blas()) return;
  std::cerr
      << "retrace: LibTorch uses the reference BLAS, which is about 30 times slower than OpenBLAS: times and ratios "
         "will not be those of a real training. Install libopenblas0-openmp.\n";
}

}  // namespace retrace::cli
