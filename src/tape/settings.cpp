#include "tape/settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <dlfcn.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "libtorch/compat.h"

namespace retrace {
namespace {

// The OpenMP that LibTorch itself uses, which need not be the one a compiler would link here. Not
// at::get_num_threads(): its first call in a thread sets the number, and a product that LibTorch runs before that would
// then have other bits.
struct OpenMp {
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;

  OpenMp() {
    void* const library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    void* const from = library ? library : RTLD_DEFAULT;
    get = reinterpret_cast<int (*)()>(dlsym(from, "omp_get_max_threads"));
    set = reinterpret_cast<void (*)(int)>(dlsym(from, "omp_set_num_threads"));
    if (!get || !set) get = nullptr;
  }
};

const OpenMp& openmp() {
  static const OpenMp instance;
  return instance;
}

bool flushes_denormals() {
#ifdef __SSE__
  constexpr unsigned kFlushToZero = 0x8000;
  return (_mm_getcsr() & kFlushToZero) != 0;
#else
  return false;
#endif
}

// Only what differs is touched: most of it is the whole process's.
void change(const Settings& from, const Settings& to) {
  at::Context& context = at::globalContext();
  if (from.grad_mode != to.grad_mode) at::GradMode::set_enabled(to.grad_mode);
  if (from.autocast_dtype != to.autocast_dtype) compat::set_autocast_cpu_dtype(to.autocast_dtype);
  if (from.default_dtype != to.default_dtype) c10::set_default_dtype(c10::scalarTypeToTypeMeta(to.default_dtype));
  if (from.onednn != to.onednn) context.setUserEnabledMkldnn(to.onednn);
  if (from.matmul_precision != to.matmul_precision) compat::set_matmul_precision(to.matmul_precision);
  if (from.flush_denormals != to.flush_denormals) at::Context::setFlushDenormal(to.flush_denormals);
  if (from.deterministic != to.deterministic || from.deterministic_warn_only != to.deterministic_warn_only)
    context.setDeterministicAlgorithms(to.deterministic, to.deterministic_warn_only);
  if (from.threads != to.threads && openmp().get) openmp().set(to.threads);
}

}  // namespace

int Settings::threads_now() { return openmp().get ? openmp().get() : 0; }

Settings Settings::now() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const at::Context& context = at::globalContext();
  Settings s;
  s.included = keys.included_;
  s.excluded = keys.excluded_;
  s.autocast_dtype = compat::autocast_cpu_dtype();
  s.default_dtype = c10::get_default_dtype_as_scalartype();
  s.threads = threads_now();
  s.matmul_precision = static_cast<int>(context.float32MatmulPrecision());
  s.grad_mode = at::GradMode::is_enabled();
  s.onednn = context.userEnabledMkldnn();
  s.deterministic = context.deterministicAlgorithms();
  s.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  s.flush_denormals = flushes_denormals();
  return s;
}

AsRecorded::AsRecorded(const Settings& recorded) : before_(Settings::now()), recorded_(recorded) {
  c10::impl::PODLocalDispatchKeySet keys{};
  keys.set_included(recorded.included);
  keys.set_excluded(recorded.excluded.add(compat::kRecordKey));
  c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(keys));
  if (before_.threads != recorded_.threads && openmp().get) {
    // Or the kernel would do it, and set another number. It is done once: afterwards the thread has what LibTorch gives
    // it.
    at::internal::lazy_init_num_threads();
    before_.threads = Settings::threads_now();
  }
  change(before_, recorded_);
}

AsRecorded::~AsRecorded() {
  change(recorded_, before_);
  c10::impl::PODLocalDispatchKeySet keys{};
  keys.set_included(before_.included);
  keys.set_excluded(before_.excluded);
  c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(keys));
}

}  // namespace retrace
