#include "scripts.h"

#include <torch/script.h>
#include <torch/torch.h>

namespace retrace::test::cli {

namespace {

torch::jit::Module linear(const std::string& name, int64_t in, int64_t out) {
  torch::jit::Module module(name);
  module.register_parameter("weight", torch::randn({in, out}).requires_grad_(), /*is_buffer=*/false);
  module.define("def forward(self, x: Tensor) -> Tensor:\n    return torch.tanh(torch.matmul(x, self.weight))\n");
  return module;
}

void save(const std::string& path, const std::string& code, bool with_parameter, bool with_gradient = true) {
  torch::jit::Module module("Net");
  if (with_parameter)
    module.register_parameter("weight", torch::randn({4, 4}).requires_grad_(with_gradient), /*is_buffer=*/false);
  module.define(code);
  module.save(path);
}

}  // namespace

void save_two_layer_script(const std::string& path) {
  torch::jit::Module net("Net");
  net.register_module("first", linear("First", 4, 8));
  net.register_module("second", linear("Second", 8, 3));
  net.define("def forward(self, x: Tensor) -> Tensor:\n    return self.second.forward(self.first.forward(x))\n");
  net.save(path);
}

void save_embedding_script(const std::string& path) {
  torch::jit::Module net("Net");
  net.register_parameter("table", torch::randn({10, 6}).requires_grad_(), /*is_buffer=*/false);
  net.define(R"(
def forward(self, tokens: Tensor, mask: Tensor):
    x = torch.embedding(self.table, tokens)
    return torch.sigmoid(x), x.masked_fill(mask.unsqueeze(1), 0.0)
)");
  net.save(path);
}

void save_script_without_parameters(const std::string& path) {
  save(path, "def forward(self, x: Tensor) -> Tensor:\n    return torch.tanh(x)\n", false);
}

void save_script_without_gradient(const std::string& path) {
  save(path, "def forward(self, x: Tensor) -> Tensor:\n    return torch.tanh(torch.matmul(x, self.weight))\n", true,
       false);
}

void save_script_of_whole_numbers(const std::string& path) {
  save(path, "def forward(self, x: Tensor) -> Tensor:\n    return torch.argmax(torch.matmul(x, self.weight), 1)\n",
       true);
}

void save_script_without_forward(const std::string& path) {
  save(path, "def other(self, x: Tensor) -> Tensor:\n    return torch.matmul(x, self.weight)\n", true);
}

}  // namespace retrace::test::cli
