// What a kernel looks at beside its arguments: the thread's and the process's settings.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace retrace {

// The settings that an operator found. Operators in a row that found the same share one record.
struct Settings {
  c10::DispatchKeySet included, excluded;  // the thread's dispatch keys: autocast, inference mode, ...
  at::ScalarType autocast_dtype = at::kFloat;
  at::ScalarType default_dtype = at::kFloat;
  int threads = 0;           // of OpenMP, which LibTorch and OpenBLAS share; 0: not known
  int matmul_precision = 0;  // of float32
  bool grad_mode = false;    // some kernels look: oneDNN's LSTM makes its workspace only if it is on
  bool onednn = false;
  bool deterministic = false, deterministic_warn_only = false;
  bool flush_denormals = false;

  static Settings now();
  static int threads_now();
  friend bool operator==(const Settings&, const Settings&) = default;
};

// While one lives, this thread (and where a setting is the process's, the process) is as recorded. Recording is off.
class AsRecorded {
 public:
  explicit AsRecorded(const Settings& recorded);
  ~AsRecorded();
  AsRecorded(const AsRecorded&) = delete;
  AsRecorded& operator=(const AsRecorded&) = delete;

 private:
  Settings before_;
  const Settings recorded_;
};

}  // namespace retrace
