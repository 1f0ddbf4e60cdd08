#include "policy/products.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <retrace/policy.h>

#include "policy/rules.h"

namespace retrace {
namespace {

using Shapes = Product::Shapes;

// Whatever eager code, TorchScript, oneDNN and the accelerators call a product or a convolution, below autograd. Not
// every LibTorch has all of them.
constexpr Product kProducts[] = {
    {"aten::mm", Shapes::matrices},
    {"aten::addmm", Shapes::sum_and_matrices},
    {"aten::addmm_", Shapes::sum_and_matrices},
    {"aten::_addmm_activation", Shapes::sum_and_matrices},
    {"aten::bmm", Shapes::matrices},
    {"aten::baddbmm", Shapes::sum_and_matrices},
    {"aten::baddbmm_", Shapes::sum_and_matrices},
    {"aten::addbmm", Shapes::sum_and_matrices},
    {"aten::addbmm_", Shapes::sum_and_matrices},
    {"aten::mv", Shapes::matrices},
    {"aten::addmv", Shapes::sum_and_matrices},
    {"aten::addmv_", Shapes::sum_and_matrices},
    {"aten::dot", Shapes::matrices},
    {"aten::vdot", Shapes::matrices},
    {"aten::linear", Shapes::matrices},
    {"aten::matmul", Shapes::other},
    {"aten::bilinear", Shapes::other},
    {"aten::_trilinear", Shapes::other},
    {"aten::_int_mm", Shapes::matrices},
    {"aten::_scaled_mm", Shapes::other},
    {"aten::_grouped_mm", Shapes::other},
    {"aten::mkldnn_linear", Shapes::other},
    {"mkldnn::_linear_pointwise", Shapes::other},
    {"mkl::_mkl_linear", Shapes::other},
    {"prepacked::linear_clamp_run", Shapes::other},
    {"aten::convolution", Shapes::convolution},
    {"aten::_convolution", Shapes::convolution},
    {"aten::convolution_overrideable", Shapes::convolution},
    {"aten::mkldnn_convolution", Shapes::convolution},
    {"mkldnn::_convolution_pointwise", Shapes::other},
    {"mkldnn_prepacked::conv2d_run", Shapes::other},
    {"prepacked::conv2d_clamp_run", Shapes::other},
    {"prepacked::conv2d_transpose_clamp_run", Shapes::other},
    {"aten::_slow_conv2d_forward", Shapes::convolution},
    {"aten::slow_conv3d_forward", Shapes::convolution},
    {"aten::slow_conv_dilated2d", Shapes::convolution},
    {"aten::slow_conv_dilated3d", Shapes::convolution},
    {"aten::slow_conv_transpose2d", Shapes::convolution},
    {"aten::slow_conv_transpose3d", Shapes::convolution},
    {"aten::_conv_depthwise2d", Shapes::convolution},
    {"aten::conv_depthwise3d", Shapes::convolution},
    {"aten::conv_tbc", Shapes::other},
    {"aten::_nnpack_spatial_convolution", Shapes::other},
    {"aten::cudnn_convolution", Shapes::convolution},
    {"aten::cudnn_convolution_transpose", Shapes::convolution},
    {"aten::cudnn_convolution_relu", Shapes::other},
    {"aten::cudnn_convolution_add_relu", Shapes::other},
    {"aten::miopen_convolution", Shapes::convolution},
    {"aten::miopen_convolution_transpose", Shapes::other},
    {"aten::miopen_depthwise_convolution", Shapes::other},
    {"aten::mkldnn_rnn_layer", Shapes::other},
    {"aten::_cudnn_rnn", Shapes::other},
    {"aten::miopen_rnn", Shapes::other},
    {"aten::_scaled_dot_product_flash_attention", Shapes::other},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", Shapes::other},
    {"aten::_scaled_dot_product_efficient_attention", Shapes::other},
    {"aten::_scaled_dot_product_cudnn_attention", Shapes::other},
    {"aten::_flash_attention_forward", Shapes::other},
    {"aten::_efficient_attention_forward", Shapes::other},
    {"aten::_native_multi_head_attention", Shapes::other},
};

}  // namespace

const Product* find_product(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kProducts), std::end(kProducts), [&](const Product& p) { return p.name == name; });
  return found == std::end(kProducts) ? nullptr : found;
}

Policy selective() {
  static const Policy policy = [] {
    std::vector<std::string> names;
    for (const Product& product : kProducts) names.emplace_back(product.name);
    return selective_of_known(names);
  }();
  return policy;
}

}  // namespace retrace
