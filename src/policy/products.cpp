// The operators that selective() keeps when it is given none.
#include "policy/rules.h"

namespace retrace {
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
