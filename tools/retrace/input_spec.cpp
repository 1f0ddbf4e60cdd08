#include "input_spec.h"

#include <charconv>
#include <map>
#include <optional>

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "commands.h"
#include "near_names.h"

namespace retrace::cli {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 48;  // beyond any machine; sizes and bytes stay within int64

const std::map<std::string, at::ScalarType>& types() {
  static const std::map<std::string, at::ScalarType> all = {
      {"f16", at::kHalf}, {"bf16", at::kBFloat16}, {"f32", at::kFloat}, {"f64", at::kDouble}, {"u8", at::kByte},
      {"i8", at::kChar},  {"i16", at::kShort},     {"i32", at::kInt},   {"i64", at::kLong},   {"bool", at::kBool},
  };
  return all;
}

[[noreturn]] void refuse(const std::string& text, const std::string& what, const std::string& hint = ".") {
  throw BadInput("[trace] --input '" + text + "': " + what + ", nothing was run" + hint +
                 " Write a type and a shape, for example f32[8,3,224,224] or i64[4,128]:50257.");
}

std::optional<int64_t> whole_number(const std::string& digits) {
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::vector<int64_t> parse_shape(const std::string& text, const std::string& list) {
  std::vector<int64_t> shape;
  if (list.empty()) return shape;
  int64_t elements = 1;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    const std::string digits = list.substr(begin, comma - begin);
    const auto size = whole_number(digits);
    if (!size) refuse(text, "'" + digits + "' is not a size");
    if (*size < 1) refuse(text, "a size of " + digits + " leaves nothing to train on");
    if (*size > kMostElements / elements) refuse(text, "no machine has memory for that many elements");
    elements *= *size;
    shape.push_back(*size);
    begin = comma + 1;
  }
  return shape;
}

bool is_integer(at::ScalarType type) { return at::isIntegralType(type, /*includeBool=*/false); }

void parse_limit(const std::string& text, const std::string& rest, InputSpec& spec) {
  if (rest.empty()) return;
  const auto below = rest.front() == ':' ? whole_number(rest.substr(1)) : std::nullopt;
  if (!below || *below < 1) refuse(text, "'" + rest + "' after the shape is not a ':' and a number of 1 or more");
  if (!is_integer(spec.type)) refuse(text, "only integers have a limit");
  spec.below = *below;
}

}  // namespace

InputSpec parse_input(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) refuse(text, "there is no shape in []");
  const std::string name = text.substr(0, open);
  const auto type = types().find(name);
  if (type == types().end()) {
    std::vector<std::string> known;
    for (const auto& entry : types()) known.push_back(entry.first);
    refuse(text, "no type is called '" + name + "'", did_you_mean(name, known) + " The types are " + join(known) + ".");
  }
  InputSpec spec;
  spec.type = type->second;
  spec.shape = parse_shape(text, text.substr(open + 1, close - open - 1));
  parse_limit(text, text.substr(close + 1), spec);
  return spec;
}

at::Tensor InputSpec::make() const {
  if (type == at::kBool) return at::rand(shape).lt(0.5);
  if (is_integer(type)) return at::randint(below, shape, at::TensorOptions(at::kLong)).to(type);
  return at::randn(shape).to(type);
}

}  // namespace retrace::cli
