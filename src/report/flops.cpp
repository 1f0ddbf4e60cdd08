#include "report/flops.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "policy/products.h"
#include "report/saved.h"

namespace retrace::report {
namespace {

using plan::at;
using Shape = std::vector<int64_t>;

double elements(const Shape& shape, size_t begin = 0, size_t end = SIZE_MAX) {
  double product = 1;
  for (size_t i = begin; i < std::min(end, shape.size()); ++i) product *= static_cast<double>(shape[i]);
  return product;
}

double element_bytes(const std::string& dtype) {
  if (dtype == "float32" || dtype == "int32") return 4;
  if (dtype == "float64") return 8;
  if (dtype == "float16" || dtype == "bfloat16") return 2;
  return 0;
}

// Of an argument, taken to be of the result's type; 0 if that is not known.
double read_elements(const plan::Graph& graph, const plan::Op& op, size_t arg) {
  const double size = element_bytes(op.outputs.front().dtype);
  if (arg >= op.args.size() || size == 0) return 0;
  const int64_t bytes = op.read_bytes.empty() ? graph.values[at(op.args[arg].value)].bytes : op.read_bytes[arg];
  return static_cast<double>(bytes) / size;
}

// (m, k) by (k, n): the product of both sizes is m n k k. Where that is no square of a whole number, something else was
// multiplied.
std::optional<double> matrix_flops(const plan::Graph& graph, const plan::Op& op, size_t first) {
  const Shape& out = op.outputs.front().shape;
  const bool batched = op.name == "aten::bmm" || op.name.starts_with("aten::baddbmm");
  const double products = batched && !out.empty() ? static_cast<double>(out.front()) : 1;
  const double both = read_elements(graph, op, first) * read_elements(graph, op, first + 1);
  const double made = elements(out);
  if (!(both > 0 && made > 0)) return std::nullopt;
  const double inner = std::sqrt(both / (made * products));
  if (inner < 1 || std::abs(inner - std::round(inner)) > 1e-6 * inner) return std::nullopt;
  return 2 * made * std::round(inner);
}

// The shape of what an argument was made as, if the operator that made it tells.
const Shape* made_as(const plan::Graph& graph, const plan::Arg& arg) {
  const plan::OpId producer = graph.values[at(arg.value)].producer;
  if (producer == plan::kNone || graph.ops[at(producer)].outputs.empty()) return nullptr;
  return &graph.ops[at(producer)].outputs.front().shape;
}

// Every weight meets every place of the smaller side: of the result, or where it is a transposed one, of what goes in.
std::optional<double> convolution_flops(const plan::Graph& graph, const plan::Op& op) {
  const Shape& out = op.outputs.front().shape;
  const double weights = read_elements(graph, op, 1);
  if (out.size() < 3 || !(weights > 0)) return std::nullopt;
  double places = elements(out, 2);
  const Shape* const in = made_as(graph, op.args.front());
  if (in != nullptr && in->size() == out.size() && in->front() == out.front())
    places = std::min(places, elements(*in, 2));
  return 2 * static_cast<double>(out.front()) * places * weights;
}

// (batch, heads, queries, width): scores, and what is summed up by them.
std::optional<double> attention_flops(const plan::Graph& graph, const plan::Op& op) {
  const Shape& out = op.outputs.front().shape;
  const double keys = read_elements(graph, op, 1);
  if (!op.name.starts_with("aten::_scaled_dot_product") || out.size() != 4 || !(keys > 0)) return std::nullopt;
  const double per_key = elements(out, 0, 2) * static_cast<double>(out[3]);
  return per_key > 0 ? std::optional(4 * elements(out) * keys / per_key) : std::nullopt;
}

}  // namespace

std::optional<double> flops_of(const plan::Graph& graph, const plan::Op& op) {
  using Shapes = Product::Shapes;
  const bool is_attention = recomputes_inside(op.name);
  const Product* const product = find_product(op.name);
  if (!is_attention && product == nullptr) return 0;
  if (op.outputs.empty()) return std::nullopt;
  if (is_attention) return attention_flops(graph, op);
  switch (product->shapes) {
    case Shapes::matrices:
      return matrix_flops(graph, op, 0);
    case Shapes::sum_and_matrices:
      return matrix_flops(graph, op, 1);
    case Shapes::convolution:
      return convolution_flops(graph, op);
    case Shapes::other:
      break;
  }
  return std::nullopt;
}

}  // namespace retrace::report
