// torch::autograd::Function in the forms people write: saving inputs, outputs, something in between, and plain numbers.
// Backward is written with differentiable operators, so second order goes through it too.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct ScaledSquare : Function<ScaledSquare> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double factor) {
    context->save_for_backward({x});
    context->saved_data["factor"] = factor;
    return x * x * factor;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor x = context->get_saved_variables()[0];
    return {grads[0] * x * (2 * context->saved_data["factor"].toDouble()), Tensor()};
  }
};

struct SavesOutput : Function<SavesOutput> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    Tensor y = x.tanh();
    context->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor y = context->get_saved_variables()[0];
    return {grads[0] * (1 - y * y)};
  }
};

// Two inputs and an output saved, two results, the second not differentiable.
struct ProductAndSign : Function<ProductAndSign> {
  static variable_list forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    Tensor product = a * b;
    Tensor sign = product.sign();
    context->mark_non_differentiable({sign});
    context->save_for_backward({a, b, product});
    return {product, sign};
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor seen = grads[0] + saved[2] * 0.125;  // not a true derivative, but it must see the right output
    return {seen * saved[1], seen * saved[0]};
  }
};

// Saves a tensor that is neither input nor output, and an integer tensor beside it.
struct SavesIntermediate : Function<SavesIntermediate> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    const Tensor inner = x.sin() + 1;
    const Tensor order = x.flatten().argsort();
    context->save_for_backward({inner, order});
    context->saved_data["shape"] = x.sizes().vec();
    return inner.square();
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor shuffled = grads[0].flatten().index_select(0, saved[1]);
    return {shuffled.view(context->saved_data["shape"].toIntVector()) * saved[0]};
  }
};

struct InPlaceDouble : Function<InPlaceDouble> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0] * 2 + context->get_saved_variables()[0] * 0.0625};
  }
};

// Keeps a tensor as a plain value instead of a saved variable: autograd never hears of it.
struct KeepsInSavedData : Function<KeepsInSavedData> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->saved_data["gate"] = x.detach().sigmoid();
    return x * context->saved_data["gate"].toTensor();
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0] * context->saved_data["gate"].toTensor()};
  }
};

bool propose_factor(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(-1, 1)};
  return propose_real(chooser, s);
}

bool propose_intermediate(Chooser& chooser, Statement& s) {
  return chooser.operand(s, [](const Tensor& t) { return is_real(t) && !t.is_leaf(); });
}

}  // namespace

std::vector<Operator> custom_function_operators() {
  return {
      {"custom_scaled_square", 3, Effect::pure, propose_factor,
       [](const Call& c) -> Results { return {ScaledSquare::apply(c.in[0], c.r(0))}; }},
      {"custom_saves_output", 3, Effect::pure, propose_real,
       [](const Call& c) -> Results { return {SavesOutput::apply(c.in[0])}; }},
      {"custom_product_and_sign", 3, Effect::pure, propose_two_reals,
       [](const Call& c) -> Results { return ProductAndSign::apply(c.in[0], c.in[1]); }},
      {"custom_saves_intermediate", 2, Effect::pure, propose_real,
       [](const Call& c) -> Results { return {SavesIntermediate::apply(c.in[0])}; }},
      {"custom_in_place", 2, Effect::pure, propose_intermediate,
       [](const Call& c) -> Results { return {InPlaceDouble::apply(c.in[0].clone())}; }},
      {"custom_saved_data", 1, Effect::pure, propose_real,
       [](const Call& c) -> Results { return {KeepsInSavedData::apply(c.in[0])}; }},
  };
}

}  // namespace retrace::random
