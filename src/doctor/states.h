// Weights, gradients and optimizer state, and the means beyond checkpointing that make them smaller.
#pragma once

#include <cstdint>
#include <string>

#include "doctor/model.h"

namespace retrace::doctor {

// What is done beside checkpointing. Every one is optional, most go together.
struct Means {
  int zero_stage = 0;  // what is split over the ranks: 1 optimizer state, 2 and gradients, 3 and weights
  int64_t ranks = 1;
  bool offload_optimizer = false;    // state and update in host memory
  bool offload_weights = false;      // weights and gradients too, streamed block by block
  bool offload_activations = false;  // kept inputs of blocks wait in host memory
  bool eight_bit = false;            // the optimizer's moments in a byte each
  int64_t lora_rank = 0;             // the weights are frozen, two thin matrices beside each are trained
  bool four_bit = false;             // the frozen matrices of the blocks in NF4
  bool chunked_loss = false;         // logits and loss a part of the tokens at a time, each part a checkpoint

  int count() const;         // how many different ones
  std::string text() const;  // "ZeRO-3 over 16 ranks + optimizer state in host memory"
  bool operator==(const Means&) const = default;
};

struct States {
  int64_t weights = 0, gradients = 0, optimizer = 0;  // on the device
  int64_t gathered = 0;                               // whole weights and gradients of the blocks at work
  int64_t host = 0;                                   // in host memory, of one rank
  int64_t moved = 0;                                  // between host and device, per step
  int64_t total() const;                              // on the device
};
States states(const Model& model, const Means& means = {});

// Bytes per trained weight: of the weight itself, its gradient, and the optimizer's state.
struct PerWeight {
  int64_t weight = 0, gradient = 0, copy = 0, moments = 0;
  int64_t total() const { return weight + gradient + copy + moments; }
};
PerWeight per_weight(const Model& model);  // without 8-bit moments, of which the scales make a fraction

int64_t lora_parameters(const Model& model, int64_t rank);

}  // namespace retrace::doctor
