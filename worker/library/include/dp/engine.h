#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dp/errors.h"
#include "dp/layers.h"
#include "dp/module.h"
#include "dp/namespace.h"

// The models that dp's trainer computes, for C++ programs: docs/library.md#models-that-dp-computes.
// In libdp_engine.

namespace dp::library {
class CompiledModel;
}

namespace dp::distributed {

struct NetworkOptions {
  // The shape of one sample: {channels, rows, columns} of an image, {features}, or {tokens} of a
  // text, whose first layer is an embedding.
  std::vector<int64_t> input;
  // The most samples that one forward takes.
  int batch_size = 1;
  // Draws initial values and dropout. Ranks that are to drop different values have different seeds.
  uint64_t seed = 0;
  // "cpu".
  std::string device = "cpu";
  // Threads that compute. 0: OMP_NUM_THREADS, else as many as the host has processors.
  int threads = 0;
};

// The loss and the hits of a batch, over its labels: one of each sample, or of each of its tokens.
struct Score {
  double loss = 0;      // the mean of the softmax cross-entropy
  int64_t correct = 0;  // labels with the greatest output
  int64_t labels = 0;
};

// A model of these layers, with softmax cross-entropy behind the last one, by the code of dp's
// trainer. DistributedDataParallel can wrap it. Values and gradients are float. Not thread-safe:
// one thread makes and uses it.
//
//   dp::Network network({{"", dp::model::Linear{.out = 64}}, {"", dp::model::Relu{}},
//                        {"", dp::model::Linear{.out = 10}}},
//                       {.input = {784}, .batch_size = 32});
//   dp::Sgd optimizer(network, {.learning_rate = 0.1});
//   network.zero_grad();
//   const dp::Score score = network.forward(inputs, labels);
//   network.backward();
//   optimizer.step();
class Network : public Module {
 public:
  // Errors: kInvalidArgument a layer does not fit, and the message names it, or an option is wrong.
  // kUnsupported another device than the CPU. kLimit there is no memory.
  Network(const std::vector<model::LayerSpec>& layers, const NetworkOptions& options);
  ~Network() override;

  // In the order of the layers, weight before bias; PyTorch's names and shapes: "linear0.weight",
  // {out, in}.
  std::vector<Parameter> parameters() override;
  // Errors: kInvalidArgument there is no such parameter, or the memory is null or does not fit.
  bool move_gradient(size_t index, MutableElements memory) override;

  // Computes a batch for training. `inputs` has samples x their shape. There is a label below
  // classes() for each sample. For a text there is one for each token: the token that follows.
  // Errors: kInvalidArgument the sizes do not fit, there are more samples than batch_size, or a
  // label or a token is out of range.
  Score forward(std::span<const float> inputs, std::span<const int32_t> labels);
  // Adds the gradients of the latest forward's loss, times `scale`, to those that are there. Calls
  // `ready` with the index of each parameter whose gradient is complete, the last layer's first.
  // Errors: kWrongState the latest call was no forward: backward, evaluate and predict end it.
  void backward(const std::function<void(size_t parameter)>& ready = nullptr, double scale = 1);
  void zero_grad();

  // As forward, without dropout. No backward can follow.
  Score evaluate(std::span<const float> inputs, std::span<const int32_t> labels);
  // The last layer's outputs for a batch, `classes()` for each sample or token, before softmax.
  // Errors: as evaluate.
  std::vector<float> predict(std::span<const float> inputs);

  // The number of outputs of the last layer for a sample or token.
  int classes() const;

 private:
  const std::unique_ptr<library::CompiledModel> compiled_;
};

struct SgdOptions {
  double learning_rate = 0.001;  // torch's default
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// torch.optim.SGD, by the code of dp's trainer. The module outlives it. Its parameters are of
// float32, and each has a gradient where parameters() says. Not thread-safe.
class Sgd {
 public:
  // Errors: kInvalidArgument an option is out of range, or two parameters have one name. Also a
  // parameter has no such gradient, or null memory for it, or that of its values.
  Sgd(Module& module, const SgdOptions& options = {});

  // Changes the values by the gradients. Errors: kInvalidArgument as at construction. kWrongState
  // a parameter is new or has another size, or this was moved from.
  void step();
  void set_learning_rate(double rate);

  // The momentum of each parameter, for a checkpoint. Errors of load: kInvalidArgument names the
  // parameter that is missing or of another size.
  OptimizerStates states() const { return states_; }
  void load(const OptimizerStates& states);

 private:
  Module& module_;
  SgdOptions options_;
  OptimizerStates states_;
};

struct AdamWOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  // Whether parameters of one axis decay too, biases and the weights of norms.
  bool decay_all = true;
};

// torch.optim.AdamW in the same way.
class AdamW {
 public:
  // Errors: as Sgd's.
  AdamW(Module& module, const AdamWOptions& options = {});

  void step();
  void set_learning_rate(double rate);

  // The two moments of each parameter, and the number of steps so far.
  OptimizerStates states() const { return states_; }
  int64_t steps() const { return steps_; }
  // Errors: as Sgd's; kInvalidArgument `steps` is no count that steps() returns.
  void load(const OptimizerStates& states, int64_t steps);

 private:
  Module& module_;
  AdamWOptions options_;
  OptimizerStates states_;
  int64_t steps_ = 0;
};

}  // namespace dp::distributed
