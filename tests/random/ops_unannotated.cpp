// Operators of a library that nobody has told Retrace about, whose schemas do not say what they write, or that take
// what no tape can store. Called with gradients disabled or inside a torch::autograd::Function, as their authors do.
// Wild programs only.
#include <torch/custom_class.h>
#include <torch/library.h>

#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Factor : torch::CustomClassHolder {
  explicit Factor(double v) : value(v) {}
  double value;
};

void scale_by_pointer(const Tensor& x, float factor) {
  auto* data = x.data_ptr<float>();
  for_each_offset(x, [&](int64_t offset) { data[offset] *= factor; });
}

void scale_in_place(const Tensor& x) { scale_by_pointer(x, 0.5f); }

void scale_by_operator(const Tensor& x) { x.mul_(0.5); }

Tensor take_half(const Tensor& x) {
  Tensor half = x.clone();
  scale_by_pointer(half, 0.5f);
  scale_by_pointer(x, 0.5f);
  return half;
}

Tensor scaled(const Tensor& x, double factor) {
  Tensor result = x.clone();
  scale_by_pointer(result, static_cast<float>(factor));
  return result;
}

Tensor with_options(const Tensor& x, const c10::Dict<std::string, double>& options) {
  return scaled(x, options.at("factor"));
}

Tensor with_object(const Tensor& x, const c10::intrusive_ptr<Factor>& factor) { return scaled(x, factor->value); }

Tensor harmless(const Tensor& x) { return scaled(x, 1.5); }

TORCH_LIBRARY(wild, m) {
  m.class_<Factor>("Factor").def(torch::init<double>());
  m.def("scale_in_place(Tensor x) -> ()");
  m.def("scale_by_operator(Tensor x) -> ()");
  m.def("take_half(Tensor x) -> Tensor");
  m.def("with_options(Tensor x, Dict(str, float) options) -> Tensor");
  m.def("with_object(Tensor x, __torch__.torch.classes.wild.Factor factor) -> Tensor");
  m.def("harmless(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(wild, CPU, m) {
  m.impl("scale_in_place", scale_in_place);
  m.impl("scale_by_operator", scale_by_operator);
  m.impl("take_half", take_half);
  m.impl("with_options", with_options);
  m.impl("with_object", with_object);
  m.impl("harmless", harmless);
}

template <class Signature>
auto wild_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

enum Which : int64_t { kTakeHalf, kWithOptions, kWithObject, kHarmless };

Tensor call_wild(int64_t which, const Tensor& x) {
  switch (which) {
    case kTakeHalf:
      return wild_operator<Tensor(const Tensor&)>("wild::take_half").call(x);
    case kWithOptions: {
      c10::Dict<std::string, double> options;
      options.insert("factor", 0.75);
      return wild_operator<Tensor(const Tensor&, const c10::Dict<std::string, double>&)>("wild::with_options")
          .call(x, options);
    }
    case kWithObject:
      return wild_operator<Tensor(const Tensor&, const c10::intrusive_ptr<Factor>&)>("wild::with_object")
          .call(x, c10::make_intrusive<Factor>(1.25));
    default:
      return wild_operator<Tensor(const Tensor&)>("wild::harmless").call(x);
  }
}

double slope_of(int64_t which) {
  return which == kTakeHalf ? 0.5 : which == kWithOptions ? 0.75 : which == kWithObject ? 1.25 : 1.5;
}

struct Wrapped : Function<Wrapped> {
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t which) {
    context->saved_data["which"] = which;
    return call_wild(which, x);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0] * slope_of(context->saved_data["which"].toInt()), Tensor()};
  }
};

// Writes a tensor of its own by an operator that does not say so, and saves it.
struct ScalesItsCopy : Function<ScalesItsCopy> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Tensor copy = x * 2;
    wild_operator<void(const Tensor&)>("wild::scale_in_place").call(copy);
    context->save_for_backward({copy});
    return copy * copy;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0] * context->get_saved_variables()[0] * 2};
  }
};

bool is_float(const Tensor& t) {
  return t.scalar_type() == torch::kFloat && t.numel() > 0 && !t.is_neg() && !t._is_zerotensor();
}
bool writable_float(const Tensor& t) { return is_float(t) && !(t.is_leaf() && t.requires_grad()); }

bool propose_writable(Chooser& chooser, Statement& s) { return chooser.operand(s, writable_float); }
bool propose_float(Chooser& chooser, Statement& s) { return chooser.operand(s, is_float); }

// ints = wrapped in a Function
bool propose_call(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(2)};
  return propose_float(chooser, s);
}
bool propose_taking_call(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(2)};
  return propose_writable(chooser, s);
}

template <int64_t which>
Results call_either_way(const Call& c) {
  if (c.i(0) != 0) return {Wrapped::apply(c.in[0], which)};
  torch::NoGradGuard no_grad;
  return {call_wild(which, c.in[0])};
}

void call_without_grad(const char* name, const Tensor& x) {
  torch::NoGradGuard no_grad;
  wild_operator<void(const Tensor&)>(name).call(x);
}

}  // namespace

std::vector<Operator> unannotated_operators() {
  return {
      {"scale_in_place", 3, Effect::writes_silently, propose_writable,
       [](const Call& c) -> Results { return call_without_grad("wild::scale_in_place", c.in[0]), Results{}; }},
      {"scale_by_operator", 2, Effect::writes, propose_writable,
       [](const Call& c) -> Results { return call_without_grad("wild::scale_by_operator", c.in[0]), Results{}; }},
      {"take_half", 3, Effect::writes_silently, propose_taking_call, call_either_way<kTakeHalf>},
      {"with_options", 2, Effect::unrepeatable, propose_call, call_either_way<kWithOptions>},
      {"with_object", 2, Effect::unrepeatable, propose_call, call_either_way<kWithObject>},
      {"harmless", 2, Effect::pure, propose_call, call_either_way<kHarmless>},
      {"scales_its_copy", 2, Effect::pure, propose_float,
       [](const Call& c) -> Results { return {ScalesItsCopy::apply(c.in[0])}; }},
  };
}

}  // namespace retrace::random
