#include <algorithm>
#include <filesystem>
#include <memory>

#include <ATen/ops/square.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/serialization/import.h>

#include "commands.h"
#include "input_spec.h"
#include "near_names.h"
#include "traced_model.h"

namespace retrace::cli {
namespace {

using torch::jit::IValue;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw BadInput("[trace] '" + path + "': " + what);
}

torch::jit::Module load(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    refuse(path, "is not a regular file, nothing was run. Check the path.");
  try {
    return torch::jit::load(path);
  } catch (const std::exception& error) {
    refuse(path, "cannot be read as TorchScript (" + first_line(error) +
                     "), nothing was run. Write it with torch.jit.script(model).save(path).");
  }
}

// "(x: Tensor, length: int)", of what forward takes.
std::string signature(const torch::jit::Module& module) {
  std::string list;
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  for (size_t i = 1; i < arguments.size(); ++i) {  // the first is the module itself
    list += (list.empty() ? "" : ", ") + arguments[i].name() + ": " + arguments[i].type()->str();
  }
  return "(" + list + ")";
}

std::vector<IValue> make_inputs(const std::string& path, const torch::jit::Module& module,
                                const std::vector<std::string>& texts) {
  if (!module.find_method("forward")) refuse(path, "has no method 'forward', nothing was run. Save a whole model.");
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  const size_t most = arguments.size() - 1;
  const auto needed = static_cast<size_t>(
      std::count_if(arguments.begin() + 1, arguments.end(), [](const auto& a) { return !a.default_value(); }));
  if (texts.size() < needed || texts.size() > most) {
    refuse(path, "forward takes " + signature(module) + " and " + std::to_string(texts.size()) +
                     " inputs were given, nothing was run. Give one --input per tensor, for example --input "
                     "f32[8,3,224,224].");
  }
  std::vector<IValue> inputs;
  for (const std::string& text : texts) inputs.emplace_back(parse_input(text).make());
  return inputs;
}

void collect(const IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined() && value.toTensor().is_floating_point()) tensors.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const IValue& item : value.toTupleRef().elements()) collect(item, tensors);
  } else if (value.isList()) {
    for (const IValue& item : value.toListRef()) collect(item, tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) collect(entry.value(), tensors);
  }
}

at::Tensor loss_of(const at::Tensor& output, const std::string& kind) {
  if (kind == "sum" || kind == "output") return output.sum();
  return (kind == "square" ? output.square() : output).mean();
}

at::Tensor total_loss(const IValue& result, const std::string& kind) {
  std::vector<at::Tensor> outputs;
  collect(result, outputs);
  if (outputs.empty()) throw BadInput("forward gives no floating-point tensor, so there is no loss");
  if (kind == "output" && (outputs.size() != 1 || outputs.front().numel() != 1))
    throw BadInput("forward gives no single number, so it is no loss itself; leave out --loss output");
  at::Tensor total = loss_of(outputs.front(), kind);
  for (size_t i = 1; i < outputs.size(); ++i) total = total.add(loss_of(outputs[i], kind));
  return total;
}

std::vector<at::Tensor> trained(const std::string& path, const torch::jit::Module& module, bool train_all) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters()) {
    if (train_all && parameter.is_floating_point()) parameter.requires_grad_();
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  if (!parameters.empty()) return parameters;
  refuse(path, module.parameters().size() == 0
                   ? "has no parameters, so there is nothing to train, nothing was run. A frozen module "
                     "(torch.jit.freeze) has them as constants: save it unfrozen."
                   : "no parameter requires a gradient, so there is no backward, nothing was run. Save it with "
                     "requires_grad, or train all of them with --train-all.");
}

// Once before anything is recorded: what the file cannot do shows here, in words about the file.
void try_once(const std::string& path, const TracedModel& traced) {
  const auto fail = [&](const std::string& what) {
    refuse(path, what + ", no tape was written. Check --input and --loss.");
  };
  try {
    const at::Tensor loss = traced.loss();
    if (!loss.requires_grad()) fail("its loss does not depend on any parameter that requires a gradient");
    loss.backward();
  } catch (const BadInput& error) {
    if (std::string(error.what()).starts_with("[trace]")) throw;
    fail(error.what());
  } catch (const std::exception& error) {
    fail("one step failed (" + first_line(error) + ")");
  }
}

}  // namespace

const std::vector<std::string>& script_losses() {
  static const std::vector<std::string> all = {"mean", "sum", "square", "output"};
  return all;
}

TracedModel traced_script(const std::string& path, const ScriptOptions& options) {
  check_is_known(options.loss, script_losses(), "trace", "loss", "losses");
  const auto module = std::make_shared<torch::jit::Module>(load(path));
  const auto inputs = std::make_shared<const std::vector<IValue>>(make_inputs(path, *module, options.inputs));
  module->train();
  // LibTorch 2 may compile what a script does into one kernel, of which nobody sees an operator.
  torch::jit::setTensorExprFuserEnabled(false);
  TracedModel traced;
  traced.name = std::filesystem::path(path).filename().string();
  traced.parameters = trained(path, *module, options.train_all);
  for (const auto& item : module->named_parameters()) traced.names.add(item.value, item.name);
  for (const auto& item : module->named_buffers()) traced.names.add(item.value, item.name);
  traced.loss = [module, inputs, kind = options.loss] { return total_loss(module->forward(*inputs), kind); };
  traced.warm_ups = 2;  // TorchScript looks at its first run, and optimises in the second
  try_once(path, traced);
  return traced;
}

}  // namespace retrace::cli
