// The named policy that must ask LibTorch which operators there are.

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include <retrace/errors.h>

#include "policy/near_names.h"
#include "policy/rules.h"

namespace retrace {
namespace {

using c10::DispatchKey;

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool is_out_form(const c10::OperatorName& name) { return name.overload_name.find("out") != std::string::npos; }

// Made of other operators above autograd: the recorder meets those, never this one.
bool is_composite(const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  return handle && handle->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
         !handle->hasKernelForDispatchKey(DispatchKey::CPU) &&
         !handle->hasKernelForDispatchKey(DispatchKey::AutogradCPU);
}

void check_name(const std::string& wanted, const std::vector<c10::OperatorName>& all) {
  std::vector<c10::OperatorName> matches;
  std::copy_if(all.begin(), all.end(), std::back_inserter(matches),
               [&](const auto& name) { return name.name == wanted || full_name(name) == wanted; });
  if (matches.empty()) {
    std::vector<std::string> names;
    const bool overload = wanted.find('.') != std::string::npos;
    for (const auto& name : all) names.push_back(overload ? full_name(name) : name.name);
    std::string near;
    for (const auto& name : nearest_names(wanted, names, 3)) near += (near.empty() ? "'" : ", '") + name + "'";
    throw UsageError("[selective] op '" + wanted +
                     "': no loaded library registers it, so nothing would be kept. Near: " + near + ".");
  }
  // Nobody who names an operator means the form that writes into a given tensor, unless there is no other.
  if (const auto out = std::stable_partition(matches.begin(), matches.end(), [](auto& n) { return !is_out_form(n); });
      out != matches.begin()) {
    matches.erase(out, matches.end());
  }
  if (std::all_of(matches.begin(), matches.end(), is_composite)) {
    throw UsageError("[selective] op '" + wanted +
                     "': it is made of other operators and never recorded itself, so nothing would be kept. Name what "
                     "it is made of, for example 'aten::mm', 'aten::addmm' and 'aten::bmm' for a linear layer or a "
                     "matmul.");
  }
}

}  // namespace

Policy selective(const std::vector<std::string>& operators) {
  const auto all = c10::Dispatcher::singleton().getAllOpNames();
  for (const auto& name : operators) check_name(name, all);
  return selective_of_known(operators);
}

}  // namespace retrace
