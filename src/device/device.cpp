#include "device/device.h"

#include <c10/core/Device.h>

#include <retrace/errors.h>

namespace retrace {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw NotSupported("[memory] device '" + name +
                     "': Retrace counts and governs the memory of the CPU alone, so nothing is known of it. Leave the "
                     "device out, or name \"cpu\".");
}

}  // namespace

const DeviceSupport& device_of(c10::DeviceType type) {
  if (type == c10::DeviceType::CPU) return cpu();
  refuse(c10::DeviceTypeName(type, /*lower_case=*/true));
}

const DeviceSupport& device_of(std::string_view name) {
  if (name == "cpu") return cpu();
  refuse(std::string(name));
}

}  // namespace retrace
