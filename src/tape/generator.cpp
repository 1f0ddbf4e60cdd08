#include "tape/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>

namespace retrace {
namespace {

std::mutex swap_mutex;

at::CPUGeneratorImpl& cpu(const at::Generator& generator) {
  return *static_cast<at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

void copy_state(const at::Generator& from, const at::Generator& to) {
  cpu(to).set_engine(cpu(from).engine());
  cpu(to).set_next_float_normal_sample(cpu(from).next_float_normal_sample());
  cpu(to).set_next_double_normal_sample(cpu(from).next_double_normal_sample());
}

// Not Generator::clone(): LibTorch 1.13 never frees what that makes, 2.6 kB each time.
at::Generator copy_of(const at::Generator& generator) {
  if (!dynamic_cast<const at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl())) return generator.clone();
  at::Generator copy = at::make_generator<at::CPUGeneratorImpl>();
  copy_state(generator, copy);
  return copy;
}

}  // namespace

at::Generator snapshot(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return copy_of(generator);
}

const at::Generator& default_generator() { return at::detail::getDefaultCPUGenerator(); }

size_t generator_bytes() { return sizeof(at::CPUGeneratorImpl); }

bool has_drawn(const at::Generator& before, at::Generator now) {
  const std::lock_guard lock(now.mutex());
  const auto a = cpu(before).engine().data();
  const auto b = cpu(now).engine().data();
  return a.seed_ != b.seed_ || a.left_ != b.left_ || a.next_ != b.next_ || a.state_ != b.state_ ||
         cpu(before).next_float_normal_sample() != cpu(now).next_float_normal_sample() ||
         cpu(before).next_double_normal_sample() != cpu(now).next_double_normal_sample();
}

DefaultGeneratorSwap::DefaultGeneratorSwap(const at::Generator& state) {
  swap_mutex.lock();
  try {
    at::Generator ambient = default_generator();
    const std::lock_guard lock(ambient.mutex());
    before_ = copy_of(ambient);
    copy_state(state, ambient);
  } catch (...) {
    swap_mutex.unlock();
    throw;
  }
}

DefaultGeneratorSwap::~DefaultGeneratorSwap() {
  {
    at::Generator ambient = default_generator();
    const std::lock_guard lock(ambient.mutex());
    copy_state(before_, ambient);
  }
  swap_mutex.unlock();
}

}  // namespace retrace
