// Models as TorchScript runs them, traced and scripted: the operators go by other names there.
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <set>

#include <models/models.h>
#include <retrace/retrace.h>

#include "policy/rules.h"
#include "support/bits.h"
#include "support/hostile.h"

namespace retrace::test::forms {

using torch::Tensor;
using Names = std::set<std::string>;

struct Form {
  std::string name;
  Tensors weights;
  std::function<Tensor()> loss;
};

// Weights are inputs of the trace: one with a gradient cannot be a constant in it.
Form traced(const models::Model& model) {
  torch::jit::Stack inputs;
  for (const Tensor& t : model.parameters) inputs.emplace_back(t);
  for (const Tensor& t : model.buffers) inputs.emplace_back(t);
  const auto run = [&](torch::jit::Stack) -> torch::jit::Stack { return {model.loss()}; };
  const auto trace = torch::jit::tracer::trace(inputs, run, [](const torch::autograd::Variable&) { return ""; });
  const auto code = std::make_shared<torch::jit::Code>(trace.first->graph, "traced");
  return {"traced " + model.name, model.parameters, [code, inputs] {
            torch::jit::Stack stack = inputs;
            torch::jit::InterpreterState(*code).run(stack);
            return stack.back().toTensor();
          }};
}

std::vector<Form> scripted() {
  static const auto unit = torch::jit::compile(R"(
    def convolutions(x, w1, w2, w3):
        a = torch.conv2d(x, w1, None, [1, 1], [1, 1]).relu()
        b = torch.conv_transpose2d(a, w2, None, [1, 1], [1, 1]).sigmoid()
        return torch.conv2d(b, w3, None, [1, 1], [1, 1], [1, 1], 4).tanh().pow(2).mean()

    def products(x, w1, w2, w3):
        a = torch.addmm(w3, x, w1).tanh()
        b = torch.matmul(a.unsqueeze(0), w2).sigmoid()
        c = torch.baddbmm(b, b, w2.unsqueeze(0)).tanh()
        return (c.squeeze(0).mv(w3)).pow(2).mean()
  )");
  torch::manual_seed(4);
  const auto weight = [](at::IntArrayRef sizes) { return (torch::randn(sizes) * 0.2).requires_grad_(); };
  const Tensors kernels{weight({4, 4, 3, 3}), weight({4, 4, 3, 3}), weight({4, 1, 3, 3})};
  const Tensors matrices{weight({16, 16}), weight({16, 16}), weight({16})};
  const auto image = torch::randn({2, 4, 8, 8}), rows = torch::randn({16, 16});
  const auto form = [](const char* name, const Tensors& weights, const Tensor& x) -> Form {
    return {std::string("scripted ") + name, weights,
            [name, weights, x] { return unit->run_method(name, x, weights[0], weights[1], weights[2]).toTensor(); }};
  };
  return {form("convolutions", kernels, image), form("products", matrices, rows)};
}

std::vector<Form> all_forms() {
  std::vector<Form> forms = scripted();
  for (const std::string& name : models::names()) {
    const models::Model model = models::make_model(name, models::Size::test);
    forms.push_back({"eager " + name, model.parameters, [model] { return model.loss(); }});
    forms.push_back(traced(model));
  }
  return forms;
}

std::string train(const Form& form, std::optional<Policy> policy) {
  torch::manual_seed(9);
  for (Tensor w : form.weights) w.mutable_grad() = Tensor();
  std::optional<Session> session;
  if (policy) session.emplace(*policy);
  Step step;
  if (session) step = session->step();
  form.loss().backward();
  step.end();
  std::string bits;
  for (const Tensor& w : form.weights) {
    if (!w.grad().defined()) continue;
    const Tensor dense = w.grad().contiguous();
    bits.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  }
  return bits;
}

bool is_product(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return has("mm") || has("conv") || has("matmul") || has("linear") || has("::mv") || has("attention") ||
         has("rnn_layer");
}

TEST(Forms, SelectiveKnowsEveryProductAndConvolutionByWhateverNameItGoes) {
  RETRACE_SKIP_IF_HOSTILE();
  int products = 0;
  for (const Form& form : all_forms()) {
    Names names;
    train(form, custom([&](const OpInfo& op) {
            names.insert(std::string(op.name));
            return true;
          }));
    EXPECT_FALSE(names.empty()) << form.name;
    for (const std::string& name : names) {
      if (!is_product(name)) continue;
      ++products;
      EXPECT_EQ(selective().rules().decide({name, "", 0, 0, {}, {}}), Decision::keep) << form.name << ": " << name;
    }
  }
  EXPECT_GT(products, 10);
}

TEST(Forms, GradientsAreThePlainOnesInEveryForm) {
  for (const Form& form : all_forms()) {
    // TorchScript watches its first runs and fuses operators afterwards, which changes bits.
    for (int i = 0; i < 3; ++i) train(form, std::nullopt);
    const std::string plain = train(form, std::nullopt);
    EXPECT_EQ(train(form, std::nullopt), plain) << form.name << " is not even the same twice";
    EXPECT_FALSE(plain.empty()) << form.name;
    for (const Policy& policy : {keep_all(), recompute_all(), every(2), selective()})
      EXPECT_EQ(train(form, policy), plain) << form.name << " under " << policy.name();
  }
}

}  // namespace retrace::test::forms
