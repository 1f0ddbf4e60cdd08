// Programs on sequences: a language model with an LSTM, the same on packed sequences, a Transformer that translates.
#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace rnn = torch::nn::utils::rnn;

namespace {

class LanguageModelImpl : public nn::Module {
 public:
  static constexpr int64_t kTokens = 40, kWidth = 24;

  LanguageModelImpl()
      : embedding_(kTokens, kWidth),
        lstm_(nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)),
        head_(kWidth, kTokens) {
    register_module("embedding", embedding_);
    register_module("lstm", lstm_);
    register_module("head", head_);
  }
  Tensor forward(const Tensor& tokens) { return head_(std::get<0>(lstm_(embedding_(tokens)))); }

  // `lengths` are those of the sequences, the longest first.
  Tensor forward_packed(const Tensor& tokens, const Tensor& lengths) {
    const auto packed = rnn::pack_padded_sequence(embedding_(tokens), lengths, /*batch_first=*/true);
    const auto outputs = std::get<0>(lstm_->forward_with_packed_input(packed));
    return head_(std::get<0>(rnn::pad_packed_sequence(outputs, /*batch_first=*/true)));
  }

 private:
  nn::Embedding embedding_;
  nn::LSTM lstm_;
  nn::Linear head_;
};
TORCH_MODULE(LanguageModel);

constexpr int64_t kSequences = 32, kLength = 8;

Tensor loss_of(const Tensor& scores, const Tensor& tokens) {
  return F::cross_entropy(scores.flatten(0, 1), tokens.flatten());
}

}  // namespace

Program lstm() {
  LanguageModel net;
  return train_with_adam(net->parameters(), [net]() mutable {
    const Tensor tokens = torch::randint(0, LanguageModelImpl::kTokens, {kSequences, kLength});
    return loss_of(net(tokens), tokens);
  });
}

Program packed_lstm() {
  LanguageModel net;
  return train_with_adam(net->parameters(), [net]() mutable {
    const Tensor tokens = torch::randint(0, LanguageModelImpl::kTokens, {kSequences, kLength});
    Tensor lengths = torch::randint(3, kLength + 1, {kSequences});
    lengths[0] = kLength;
    lengths = std::get<0>(torch::sort(lengths, 0, /*descending=*/true));
    return loss_of(net->forward_packed(tokens, lengths), tokens);
  });
}

namespace {

Program translate(int64_t layers, int64_t feedforward, int64_t from, int64_t to) {
  constexpr int64_t kTokens = 50, kWidth = 32, kBatch = 16;
  nn::Transformer transformer(
      nn::TransformerOptions(kWidth, 4, layers, layers).dim_feedforward(feedforward).dropout(0.1));
  nn::Embedding embedding(kTokens, kWidth);
  nn::Linear head(kWidth, kTokens);
  return train_with_adam(parameters_of(transformer, embedding, head), [=]() mutable {
    const Tensor source = torch::randint(0, kTokens, {from, kBatch}), target = torch::randint(0, kTokens, {to, kBatch});
    const Tensor causal = nn::TransformerImpl::generate_square_subsequent_mask(to);
    const Tensor states = transformer(embedding(source), embedding(target), /*src_mask=*/Tensor(), causal);
    return loss_of(head(states), target);
  });
}

}  // namespace

Program seq2seq() { return translate(2, 64, 16, 12); }
Program deep_seq2seq() { return translate(4, 128, 24, 24); }

}  // namespace retrace::test::programs
