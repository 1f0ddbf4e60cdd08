// Autograd's engine, with our handles for what it saves and a notice of when a backward begins and ends.

#include <torch/csrc/autograd/engine.h>

#include "memory/allocator.h"
#include "tape/backward_watch.h"
#include "tape/handle.h"
#include "tape/no_grad_views.h"
#include "tape/scope.h"

namespace retrace {
namespace {

class RecordingEngine final : public torch::autograd::Engine {
 public:
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    torch::autograd::variable_list results;
    {
      const BackwardScope scope(keep_graph, create_graph);
      const BackwardWatch watch;
      results = Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    }
    backward_ended();
    return results;
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const auto scope = current_scope();
    if (!scope || may_save_no_grad_view()) return nullptr;
    return std::make_unique<Handle>(*scope);
  }
};

// Never destroyed: static destructors of the program may still run a backward.
torch::autograd::Engine& engine() {
  static auto* const instance = new RecordingEngine;
  return *instance;
}

const bool installed = (torch::autograd::set_default_engine_stub(&engine), true);

}  // namespace

void link_engine() {}

}  // namespace retrace
