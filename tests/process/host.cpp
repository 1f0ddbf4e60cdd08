// host PLUGIN: a program that is not linked to Retrace loads a plugin that is, trains in it, unloads it, and goes on.
#include <ATen/ATen.h>
#include <dlfcn.h>

#include <cstdio>

int main(int, char** argv) {
  const auto early = at::ones({1000});
  auto weight = at::ones({64, 64}).requires_grad_(true);
  for (int i = 0; i < 3; ++i) {
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
      std::puts(dlerror());
      return 1;
    }
    const auto trains = reinterpret_cast<bool (*)()>(dlsym(plugin, "plugin_trains"));
    std::puts(trains() ? "plugin trains" : "plugin fails");
    dlclose(plugin);
    weight.mutable_grad() = at::Tensor();
    weight.mm(weight).mean().backward();  // of ones: every entry of the gradient is 2 / 64
    std::puts(weight.grad().eq(2.0 / 64).all().item<bool>() ? "host trains" : "host fails");
  }
  return early.sum().item<float>() == 1000 ? 0 : 1;
}
