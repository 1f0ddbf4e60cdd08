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

namespace {

// Whatever eager code, TorchScript, oneDNN and the accelerators call a product or a convolution, below autograd. Not every
// LibTorch has all of them.
constexpr const char* kProducts[] = {
    "aten::mm",
    "aten::addmm",
    "aten::addmm_",
    "aten::_addmm_activation",
    "aten::bmm",
    "aten::baddbmm",
    "aten::baddbmm_",
    "aten::addbmm",
    "aten::addbmm_",
    "aten::mv",
    "aten::addmv",
    "aten::addmv_",
    "aten::dot",
    "aten::vdot",
    "aten::linear",
    "aten::matmul",
    "aten::bilinear",
    "aten::_trilinear",
    "aten::_int_mm",
    "aten::_scaled_mm",
    "aten::_grouped_mm",
    "aten::mkldnn_linear",
    "mkldnn::_linear_pointwise",
    "mkl::_mkl_linear",
    "prepacked::linear_clamp_run",
    "aten::convolution",
    "aten::_convolution",
    "aten::convolution_overrideable",
    "aten::mkldnn_convolution",
    "mkldnn::_convolution_pointwise",
    "mkldnn_prepacked::conv2d_run",
    "prepacked::conv2d_clamp_run",
    "prepacked::conv2d_transpose_clamp_run",
    "aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d",
    "aten::slow_conv_transpose2d",
    "aten::slow_conv_transpose3d",
    "aten::_conv_depthwise2d",
    "aten::conv_depthwise3d",
    "aten::conv_tbc",
    "aten::_nnpack_spatial_convolution",
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_transpose",
    "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu",
    "aten::miopen_convolution",
    "aten::miopen_convolution_transpose",
    "aten::miopen_depthwise_convolution",
    "aten::mkldnn_rnn_layer",
    "aten::_cudnn_rnn",
    "aten::miopen_rnn",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "aten::_native_multi_head_attention",
};

}  // namespace

Policy selective() {
  static const Policy policy = selective_of_known({std::begin(kProducts), std::end(kProducts)});
  return policy;
}

}  // namespace retrace
