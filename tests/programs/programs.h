// Small training programs as people write them. They know nothing of Retrace.
//
//   torch::manual_seed(1);
//   Program program = unet();
//   at::Tensor loss = program.step();
//
// All a program draws (weights, batches, noise) comes from the default generator: the same seed, the same training.
// Each is small, but its activations outweigh its weights, as in the program it stands for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace retrace::test::programs {

struct Program {
  std::vector<at::Tensor> parameters;
  // One whole training step: clears gradients, runs forward, backward and the optimizer; returns the loss.
  std::function<at::Tensor()> step;
};

// vision.cpp
Program unet();                // segmentation: skip connections, batch norm, ReLU in place
Program masked_autoencoder();  // most patches are hidden, by gather with a random order
Program simclr();              // two views of each image against all others
Program yolo();                // detection: boolean masks, and box statistics without grad

// sequences.cpp
Program lstm();
Program packed_lstm();  // sequences of several lengths
Program seq2seq();      // nn::Transformer, with a causal mask

// generative.cpp
Program diffusion();  // predicts noise: residual blocks, dropout, self-attention over pixels
Program flow();       // coupling layers, exact likelihood
Program wgan_gp();    // a penalty on the critic's own gradient; two optimizers
Program dcgan();      // three backward passes; the discriminator judges one image twice

// physics.cpp
Program nerf();         // a coarse and a fine field, the second sampled where the first is dense
Program splatting();    // Gaussians blended front to back
Program force_field();  // forces are the energy's gradient, and are trained on

// equations.cpp
Program burgers();     // a net that solves an equation: its second derivatives are trained on
Program neural_ode();  // a state over time, with a backward that goes back in time by gradients of its own

// loops.cpp: ordinary models in less ordinary training loops
Program two_losses();     // two backward passes through one retained graph
Program micro_batches();  // gradients of several batches add up before the update
Program maml();           // gradients through three updates of an inner training
Program adversarial();    // the batch is made worse three times by its own gradient
Program newton_steps();   // products of the Hessian with vectors made from those before
Program growing();        // the vocabulary grows in every step: a larger embedding takes the place of the one before
Program resized();        // a batch comes large, and is made smaller first
Program lbfgs();          // the optimizer runs forward and backward itself, several times a step

// recurrences.cpp: those that people write out themselves
Program rows_of_a_buffer();  // states are the rows of one tensor, written in place
Program actor_critic();      // an LSTM cell plays an episode, then learns from it
Program graph_network();     // messages along random edges, attention over those a node receives
Program carried_state();  // one step is a long sequence in many windows: each ends with a backward, the state goes on
Program chunks_of_a_sequence();  // each backward goes through the graphs of all chunks before it, which are retained

// deep.cpp: no single value cuts their forward in two, and segments pay
Program deep_lstm();
Program deep_gru();
Program deep_unet();
Program deep_seq2seq();
Program mass_and_springs();  // a simulation: what a step begins with is two states
Program leapfrog();          // gradients of gradients, each through the last
Program penalized_mlp();     // the penalty on its weights is computed first and added last

struct Entry {
  std::string name;
  Program (*make)();
  // Whether a percent is of the plain peak to the byte from the third step on. Not where steps differ in size, nor
  // where the estimate of the plain peak is known to be wrong.
  bool percent_is_exact = true;
  // Of the peak, that a plan may predict too much: when a node of a retained graph lets go of what it unpacked is not
  // on the tape, so it is taken to have it until the next one begins.
  double predicted_above = 0;
};

inline const std::vector<Entry>& all() {
  static const std::vector<Entry> programs{
      {.name = "unet", .make = unet},
      {.name = "masked_autoencoder", .make = masked_autoencoder},
      {.name = "simclr", .make = simclr},
      {.name = "yolo", .make = yolo, .percent_is_exact = false},  // masks
      {.name = "lstm", .make = lstm},
      {.name = "packed_lstm", .make = packed_lstm, .percent_is_exact = false},  // lengths
      {.name = "seq2seq", .make = seq2seq},
      {.name = "diffusion", .make = diffusion},
      {.name = "flow", .make = flow},
      // What the program lets go of right before backward is counted as if backward had it: 2 KiB too much of 983 KB.
      {.name = "wgan_gp", .make = wgan_gp, .percent_is_exact = false},
      {.name = "dcgan", .make = dcgan},
      {.name = "nerf", .make = nerf},
      {.name = "splatting", .make = splatting},
      {.name = "force_field", .make = force_field},
      {.name = "burgers", .make = burgers},
      {.name = "neural_ode", .make = neural_ode},
      {.name = "two_losses", .make = two_losses, .predicted_above = 0.02},
      {.name = "micro_batches", .make = micro_batches},  // of its first batch norm
      {.name = "maml", .make = maml},
      {.name = "adversarial", .make = adversarial},
      {.name = "newton_steps", .make = newton_steps},
      {.name = "growing", .make = growing, .percent_is_exact = false},  // it is larger each time
      {.name = "resized", .make = resized},
      // What it lets go of in the middle of a step, a part of its history, is counted to the end: 95 % allows 103 %.
      {.name = "lbfgs", .make = lbfgs, .percent_is_exact = false},
      {.name = "rows_of_a_buffer", .make = rows_of_a_buffer},
      {.name = "actor_critic", .make = actor_critic},
      {.name = "graph_network", .make = graph_network},
      {.name = "carried_state", .make = carried_state},
      {.name = "chunks_of_a_sequence", .make = chunks_of_a_sequence, .predicted_above = 0.02},
  };
  return programs;
}

}  // namespace retrace::test::programs
