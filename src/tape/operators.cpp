#include "tape/operators.h"

#include <ATen/core/enum_tag.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "plan/graph/graph.h"
#include "tape/thread_object.h"

namespace retrace {
namespace {

using Names = std::unordered_set<std::string>;

const Names kShapeOnly = {"aten::empty_like", "aten::zeros_like", "aten::ones_like",    "aten::full_like",
                          "aten::rand_like",  "aten::randn_like", "aten::randint_like", "aten::new_empty",
                          "aten::new_zeros",  "aten::new_ones",   "aten::new_full",     "aten::new_empty_strided"};

const Names kUninitialised = {"aten::empty",          "aten::empty_like",        "aten::empty_strided",
                              "aten::new_empty",      "aten::new_empty_strided", "aten::empty_permuted",
                              "aten::empty_quantized"};

const Names kOverwrites = {"aten::copy_",   "aten::fill_",      "aten::zero_",      "aten::bernoulli_",
                           "aten::normal_", "aten::uniform_",   "aten::random_",    "aten::exponential_",
                           "aten::cauchy_", "aten::geometric_", "aten::log_normal_"};

const Names kOpaque = {"aten::set_", "aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_data"};

// Operators whose schema does not say that they write an argument. A wrong guess elsewhere is what `verify` is for. The
// random numbers of cuDNN's and MIOpen's recurrent layers come from `dropout_state`, which they advance; their backward
// uses up `reserve`.
struct SilentWrite {
  std::vector<const char*> arguments;
  const char* when = nullptr;  // only when this bool argument is true
};
const std::unordered_map<std::string, SilentWrite> kSilentWrites = {
    {"aten::native_batch_norm", {{"running_mean", "running_var"}, "training"}},
    {"aten::cudnn_batch_norm", {{"running_mean", "running_var"}, "training"}},
    {"aten::miopen_batch_norm", {{"running_mean", "running_var"}, "training"}},
    {"aten::batch_norm_update_stats", {{"running_mean", "running_var"}}},
    {"aten::rrelu_with_noise", {{"noise"}, "training"}},
    {"aten::rrelu_with_noise_", {{"noise"}, "training"}},
    {"aten::_cudnn_rnn", {{"dropout_state"}, "train"}},
    {"aten::_cudnn_rnn_backward", {{"reserve"}}},
    {"aten::miopen_rnn", {{"dropout_state"}, "train"}},
    {"aten::miopen_rnn_backward", {{"reserve"}}},
};

// Operators that return scratch for their backward, with padding that nobody writes. Rebuilt like anything else, but
// not compared.
const std::unordered_map<std::string, int> kScratchOutputs = {{"aten::_ctc_loss", 1},
                                                              {"aten::mkldnn_rnn_layer", 3},
                                                              {"aten::cudnn_batch_norm", 3},
                                                              {"aten::_cudnn_rnn", 3},
                                                              {"aten::miopen_rnn", 3}};

bool takes_generator(const c10::Argument& argument) {
  return argument.type()->str().find("Generator") != std::string::npos;
}

void read_schema(const c10::FunctionSchema& schema, OpTraits& traits) {
  bool only_out = true;
  bool any_write = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool write = argument.alias_info() && argument.alias_info()->isWrite();
    traits.writes.push_back(write);
    any_write |= write;
    only_out &= !write || argument.is_out();
    if (takes_generator(argument)) traits.generator_argument = static_cast<int>(i);
  }
  traits.overwrites = any_write && only_out;
  traits.only_writes = true;
  traits.admits_views = std::all_of(schema.returns().begin(), schema.returns().end(),
                                    [](const c10::Argument& r) { return r.alias_info() != nullptr; });
  traits.view = !any_write && !schema.returns().empty() && traits.admits_views;
  for (const c10::Argument& result : schema.returns()) {
    traits.only_writes &= result.alias_info() && result.alias_info()->isWrite();
  }
}

bool annotates(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& argument) { return argument.alias_info() != nullptr; });
}

std::unique_ptr<OpTraits> describe(const c10::OperatorHandle& op) {
  auto traits = std::make_unique<OpTraits>();
  const auto& schema = op.schema();
  traits->name = schema.operator_name();
  read_schema(schema, *traits);
  const std::string& name = traits->name.name;
  traits->name_hash = plan::name_hash(name);
  traits->draws = traits->generator_argument >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
  traits->may_draw = !traits->draws && name.rfind("aten::", 0) != 0;
  traits->overwrites |= kOverwrites.count(name) > 0;
  traits->shape_only = kShapeOnly.count(name) > 0;
  traits->uninitialised = kUninitialised.count(name) > 0;
  traits->opaque = kOpaque.count(name) > 0;
  traits->collective = name.rfind("c10d::", 0) == 0 || name.rfind("_c10d_functional::", 0) == 0;
  traits->silent_about_writes = name.rfind("aten::", 0) != 0 && !annotates(schema);
  traits->batch_norm = name == "aten::native_batch_norm";
  if (const auto scratch = kScratchOutputs.find(name); scratch != kScratchOutputs.end()) {
    traits->scratch_output = scratch->second;
  }
  if (const auto silent = kSilentWrites.find(name); silent != kSilentWrites.end()) {
    for (const char* const argument : silent->second.arguments) {
      if (const auto at = schema.argumentIndexWithName(argument)) traits->silent_writes.push_back(*at);
    }
    if (silent->second.when) traits->silent_when = schema.argumentIndexWithName(silent->second.when).value_or(-1);
  }
  return traits;
}

}  // namespace

std::vector<std::string> silent_operators() {
  std::vector<std::string> names;
  for (const auto& [name, write] : kSilentWrites) names.push_back(name);
  return names;
}

const OpTraits& traits_of(const c10::OperatorHandle& op) {
  // Keyed by the schema's address, which is stable while the operator is registered; the name guards against an
  // address that was reused after a library was unloaded.
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<OpTraits>>;
  struct Cache {
    ska::flat_hash_map<const void*, const OpTraits*> entries;
  };
  const OpTraits*& entry = ThreadObject<Cache>::get().entries[&op.schema()];
  if (!entry || entry->name != op.schema().operator_name()) {
    auto traits = describe(op);
    entry = traits.get();
    const std::lock_guard lock(mutex);
    all->push_back(std::move(traits));  // never freed: tapes of other threads may point at it
  }
  return *entry;
}

}  // namespace retrace
