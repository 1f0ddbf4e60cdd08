#include "doctor/device.h"

#include "doctor/block.h"
#include "doctor/model.h"

namespace retrace::doctor {
namespace {

Device gpu(const char* name, int64_t gib, double tera_flops, double gigabytes) {
  return {name, gib << 30, tera_flops * 1e12, gigabytes * 1e9};
}

}  // namespace

double Device::balance() const { return flops > 0 && bandwidth > 0 ? flops / bandwidth : kUsualBalance; }

const std::vector<Device>& devices() {
  static const std::vector<Device> list = {
      {"cpu", 0, 0, 0},
      gpu("v100-16gb", 16, 125, 900),
      gpu("v100-32gb", 32, 125, 900),
      gpu("rtx3090", 24, 71.2, 936),
      gpu("rtx4090", 24, 165.2, 1008),
      gpu("a40", 48, 149.7, 696),
      gpu("l4", 24, 121, 300),
      gpu("l40s", 48, 362.05, 864),
      gpu("a100-40gb", 40, 312, 1555),
      gpu("a100-80gb", 80, 312, 2039),
      gpu("h100", 80, 989.4, 3350),
      gpu("h100-pcie", 80, 756, 2000),
      gpu("h200", 141, 989.4, 4800),
      gpu("mi300x", 192, 1307, 5300),
  };
  return list;
}

Device device_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Device& device : devices()) names.push_back(device.name);
  return devices()[position_of(name, names, "device")];
}

}  // namespace retrace::doctor
