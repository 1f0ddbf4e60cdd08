#include "runner.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <retrace/errors.h>
#include <retrace/memory.h>
#include <retrace/sequential.h>

#include "commands.h"
#include "near_names.h"

namespace retrace::cli {

namespace {

const std::vector<std::string> kPolicies = {"plain",     "keep_all",        "recompute_all", "every:N",
                                            "selective", "selective:OP,OP", "sequential:N",  "budget:B"};

[[noreturn]] void unknown(const std::string& name, const std::string& stem) {
  const auto hint =
      did_you_mean(stem, {"plain", "keep_all", "recompute_all", "every", "selective", "sequential", "budget"});
  throw BadInput("[bench] no policy is called '" + name + "', nothing was run" + hint + " The policies are " +
                 join(kPolicies) + ".");
}

}  // namespace

int64_t count_of(const std::string& policy, const std::string& stem, const std::string& digits) {
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1) {
    throw BadInput("[bench] policy '" + policy + "': '" + digits +
                   "' is not a whole number of 1 or more, nothing was run. " + "Write for example " + stem + ":2.");
  }
  return value;
}

namespace {

std::vector<std::string> operators(const std::string& policy, const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  if (names.empty()) {
    throw BadInput("[bench] policy '" + policy + "' names no operator, nothing was run. Write for example " +
                   "selective:aten::mm,aten::bmm, or selective alone for the default list.");
  }
  return names;
}

void check_segments(const std::string& policy, int64_t segments, const models::Model& model) {
  const auto layers = static_cast<int64_t>(model.layers.size());
  if (segments <= layers) return;
  throw BadInput(
      "[bench] policy '" + policy + "': " + model.name + " has " + std::to_string(layers) +
      " layers and cannot be cut into more segments than that, nothing was run. Use sequential:1 to sequential:" +
      std::to_string(layers) + ".");
}

}  // namespace

Runner::Runner(const std::string& policy, const models::Model& model) : name_(policy) {
  const size_t colon = policy.find(':');
  const std::string stem = policy.substr(0, colon);
  const bool has_argument = colon != std::string::npos;
  const std::string argument = has_argument ? policy.substr(colon + 1) : "";
  if (stem == "sequential") {
    segments_ = count_of(policy, stem, argument);
    check_segments(policy, segments_, model);
  } else if (stem == "every") {
    session_.emplace(every(count_of(policy, stem, argument)));
  } else if (stem == "selective") {
    session_.emplace(has_argument ? selective(operators(policy, argument)) : selective());
  } else if (stem == "budget") {
    const Budget asked = budget(argument);
    budget_bytes_ = asked.bytes();
    session_.emplace(asked, SessionOptions{.planning = Planning::foreground});  // the same plan in every run
  } else if (policy == "keep_all") {
    session_.emplace(keep_all());
  } else if (policy == "recompute_all") {
    session_.emplace(recompute_all());
  } else if (policy != "plain") {
    unknown(policy, stem);
  }
}

StepResult Runner::step(const models::Model& model) {
  if (!session_) return pass(model);
  const auto step = session_->step();
  return pass(model);
}

StepResult Runner::pass(const models::Model& model) const {
  const at::Tensor input = model.input();
  at::Tensor x = input;
  if (segments_ > 0) {
    x = checkpoint_sequential(model.layers, segments_, std::move(x));
  } else {
    for (const models::Layer& layer : model.layers) x = layer(std::move(x));
  }
  // A training loop has the output in a variable until the step ends, and so have the peers this is compared with.
  const at::Tensor output = model.output(std::move(x));
  const at::Tensor loss = model.criterion(output);
  StepResult result{loss.detach(), {}, memory::live_bytes()};
  loss.backward();
  if (input.requires_grad()) result.input_gradient = input.grad();
  return result;
}

std::vector<std::string> sweep_of_budgets(const models::Model& model, int64_t count) {
  const auto drop_gradients = [&] {
    for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
  };
  drop_gradients();
  memory::reset_peak();
  Runner("plain", model).step(model);
  const int64_t largest = memory::peak_bytes();
  drop_gradients();
  int64_t smallest = largest;
  try {
    Runner("budget:1", model).step(model);
  } catch (const InfeasibleBudget& refusal) {
    smallest = refusal.smallest_bytes;
  }
  drop_gradients();
  std::vector<std::string> policies;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bytes = count == 1 ? smallest : smallest + (largest - smallest) * i / (count - 1);
    policies.push_back("budget:" + std::to_string(bytes));
  }
  return policies;
}

std::vector<std::string> default_policies(const models::Model& model) {
  const size_t segments = std::min<size_t>(8, model.layers.size());
  return {"plain", "keep_all", "sequential:" + std::to_string(segments), "every:1", "selective", "recompute_all"};
}

}  // namespace retrace::cli
