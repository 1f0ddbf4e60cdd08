// A language model of two LSTM layers with dropout between them, on random tokens.
#include <tuple>

#include "build.h"

namespace models {

namespace {

// torch::nn::LSTM returns its states too; the chain wants the outputs only.
class RecurrentImpl : public torch::nn::Module {
 public:
  RecurrentImpl(int64_t in, int64_t width, int64_t layers)
      : lstm_(torch::nn::LSTMOptions(in, width).num_layers(layers).dropout(0.2).batch_first(true)) {
    register_module("lstm", lstm_);
  }
  at::Tensor forward(const at::Tensor& x) { return std::get<0>(lstm_(x)); }

 private:
  torch::nn::LSTM lstm_;
};
TORCH_MODULE(Recurrent);

struct Shape {
  int64_t batch, length, embedding, width, layers, vocabulary;
};

}  // namespace

Model make_lstm(Size size, const Extents& asked) {
  Shape shape = size == Size::bench ? Shape{32, 64, 256, 512, 2, 256} : Shape{3, 6, 8, 12, 2, 20};
  shape.batch = either(asked.batch, shape.batch);
  shape.length = either(asked.length, shape.length);
  shape.width = either(asked.width, shape.width);
  shape.layers = either(asked.layers, shape.layers);
  Model model;
  append(model, "embedding", torch::nn::Embedding(shape.vocabulary, shape.embedding));
  append(model, "embedding_dropout", torch::nn::Dropout(0.1));
  append(model, "recurrent", Recurrent(shape.embedding, shape.width, shape.layers));
  append(model, "output_dropout", torch::nn::Dropout(0.1));
  append(model, "head", torch::nn::Linear(shape.width, shape.vocabulary));
  const at::Tensor text = torch::randint(shape.vocabulary, {shape.batch, shape.length + 1}, torch::kLong);
  const at::Tensor tokens = text.narrow(1, 0, shape.length).contiguous();
  const at::Tensor targets = text.narrow(1, 1, shape.length).flatten();
  model.input = [tokens] { return tokens; };
  model.criterion = [targets](const at::Tensor& y) {
    return torch::nn::functional::cross_entropy(y.flatten(0, 1), targets);
  };
  return model;
}

}  // namespace models
