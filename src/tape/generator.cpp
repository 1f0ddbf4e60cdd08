#include "tape/generator.h"

#include <mutex>

#include "device/device.h"

namespace retrace {
namespace {

std::mutex swap_mutex;

const DeviceSupport& device_of(const at::Generator& generator) { return retrace::device_of(generator.device().type()); }

}  // namespace

at::Generator snapshot(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return device_of(generator).copy_of(generator);
}

const at::Generator& default_generator() { return cpu().default_generator(); }

size_t generator_bytes() { return cpu().generator_bytes(); }

bool has_drawn(const at::Generator& before, at::Generator now) {
  const std::lock_guard lock(now.mutex());
  return !device_of(now).is_same_state(before, now);
}

DefaultGeneratorSwap::DefaultGeneratorSwap(const at::Generator& state) {
  swap_mutex.lock();
  try {
    at::Generator ambient = default_generator();
    const std::lock_guard lock(ambient.mutex());
    before_ = device_of(ambient).copy_of(ambient);
    device_of(ambient).set_state(ambient, state);
  } catch (...) {
    swap_mutex.unlock();
    throw;
  }
}

DefaultGeneratorSwap::~DefaultGeneratorSwap() {
  {
    at::Generator ambient = default_generator();
    const std::lock_guard lock(ambient.mutex());
    device_of(ambient).set_state(ambient, before_);
  }
  swap_mutex.unlock();
}

}  // namespace retrace
