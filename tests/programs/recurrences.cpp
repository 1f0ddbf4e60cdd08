// Recurrences that people write out themselves: states in the rows of one buffer, an agent's episode, messages on a
// graph, a sequence in chunks.
#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

Program rows_of_a_buffer() {
  constexpr int64_t kBatch = 16, kLength = 24, kWidth = 32;
  nn::Linear from_input(kWidth, kWidth), from_state(kWidth, kWidth), head(kWidth, 2);
  return train_with_adam(parameters_of(from_input, from_state, head), [=]() mutable {
    const Tensor inputs = torch::randn({kBatch, kLength, kWidth});
    const Tensor states = torch::zeros({kBatch, kLength, kWidth});
    for (int64_t t = 0; t < kLength; ++t) {
      const Tensor before = t > 0 ? states.select(1, t - 1).clone() : torch::zeros({kBatch, kWidth});
      states.select(1, t).copy_(torch::tanh(from_input(inputs.select(1, t)) + from_state(before)));
    }
    const Tensor mixed = (from_state(states) * states).add_(states);
    mixed.slice(1, 0, kLength, 2) *= 0.5;
    return head(mixed.reshape({-1, kWidth})).pow(2).mean() + mixed.cumsum(1).tanh().mean();
  });
}

Program actor_critic() {
  constexpr int64_t kAgents = 32, kMoments = 16, kSeen = 16, kWidth = 32, kActions = 5;
  nn::LSTMCell memory(nn::LSTMCellOptions(kSeen, kWidth));
  nn::Linear policy(kWidth, kActions), worth(kWidth, 1);
  return train_with_adam(parameters_of(memory, policy, worth), [=]() mutable {
    Tensor seen = torch::randn({kAgents, kSeen});
    std::tuple<Tensor, Tensor> state(torch::zeros({kAgents, kWidth}), torch::zeros({kAgents, kWidth}));
    std::vector<Tensor> chosen, worths, rewards;
    for (int64_t t = 0; t < kMoments; ++t) {
      state = memory(seen, state);
      const Tensor odds = torch::log_softmax(policy(std::get<0>(state)), 1);
      const Tensor action = odds.detach().exp().multinomial(1);
      chosen.push_back(odds.gather(1, action));
      worths.push_back(worth(std::get<0>(state)));
      seen = torch::roll(seen, 1, 1) + 0.1 * action.to(torch::kFloat);
      rewards.push_back(torch::tanh(seen.mean(1, /*keepdim=*/true)));
    }
    Tensor total = worths.back().detach(), loss = torch::zeros({});
    for (size_t t = rewards.size(); t-- > 0;) {
      total = rewards[t] + 0.95 * total;
      const Tensor advantage = total - worths[t];
      loss = loss - (chosen[t] * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean();
    }
    return loss;
  });
}

Program graph_network() {
  constexpr int64_t kNodes = 200, kEdges = 1200, kWidth = 16, kLayers = 3, kClasses = 7;
  nn::Linear message(kWidth, kWidth), update(kWidth, kWidth), attention(2 * kWidth, 1), head(kWidth, kClasses);
  nn::LayerNorm norm(nn::LayerNormOptions({kWidth}));
  return train_with_adam(parameters_of(message, update, attention, head, norm), [=]() mutable {
    const Tensor from = torch::randint(kNodes, {kEdges}), to = torch::randint(kNodes, {kEdges});
    Tensor states = torch::randn({kNodes, kWidth});
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const Tensor sent = states.index_select(0, from), met = states.index_select(0, to);
      const Tensor weights = F::leaky_relu(attention(torch::cat({sent, met}, 1))).exp();
      const Tensor sums = torch::zeros({kNodes, 1}).index_add(0, to, weights);
      const Tensor received =
          torch::zeros({kNodes, kWidth}).index_add_(0, to, message(sent) * (weights / sums.index_select(0, to)));
      states = states + F::dropout(norm(torch::relu(update(received))), F::DropoutFuncOptions().p(0.2));
    }
    return F::cross_entropy(head(states), torch::randint(kClasses, {kNodes}));
  });
}

// More operators than a tape keeps for the sake of what the program has (kMostForLiving in plan/simulate/sweep.h).
Program carried_state() {
  constexpr int64_t kWindows = 90, kMoments = 8, kBatch = 8, kWidth = 16;
  nn::Linear from_input(kWidth, kWidth), from_state(kWidth, kWidth);
  const auto parameters = parameters_of(from_input, from_state);
  const auto optimizer = adam(parameters);
  return {parameters, [=]() mutable {
            optimizer->zero_grad();
            Tensor state = torch::zeros({kBatch, kWidth}), total = torch::zeros({});
            for (int64_t w = 0; w < kWindows; ++w) {
              Tensor loss = torch::zeros({});
              for (int64_t t = 0; t < kMoments; ++t) {
                state = torch::tanh(from_input(torch::randn({kBatch, kWidth})) + from_state(state));
                loss = loss + state.pow(2).mean();
              }
              loss.backward();
              state = state.detach();
              total += loss.detach();
            }
            optimizer->step();
            return total;
          }};
}

Program chunks_of_a_sequence() {
  constexpr int64_t kBatch = 32, kChunks = 4, kLength = 6, kSeen = 16, kWidth = 64;
  nn::GRUCell cell(nn::GRUCellOptions(kSeen, kWidth));
  nn::Linear head(kWidth, kSeen);
  const auto parameters = parameters_of(cell, head);
  const auto optimizer = adam(parameters);
  return {parameters, [=]() mutable {
            optimizer->zero_grad();
            Tensor state = torch::zeros({kBatch, kWidth}), sum = torch::zeros({});
            for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
              Tensor loss = torch::zeros({});
              for (int64_t t = 0; t < kLength; ++t) {
                const Tensor seen = torch::randn({kBatch, kSeen});
                state = cell(seen, state);
                loss = loss + (head(state) - seen).square().mean();
              }
              loss.backward({}, /*retain_graph=*/true);
              sum += loss.detach();
            }
            optimizer->step();
            return sum;
          }};
}

}  // namespace retrace::test::programs
