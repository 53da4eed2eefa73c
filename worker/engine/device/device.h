#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/shape_check.h"
#include "worker/engine/nn/adamw.h"
#include "worker/engine/nn/parameter.h"
#include "worker/engine/nn/sgd.h"

namespace dp::engine {

class Dataset;
class Reducer;

// Samples of one step on one rank, in host memory. The first `count` rows are samples; the rows
// above, up to the network's batch size, are padding: they are computed with but add nothing to
// loss, accuracy or gradients. Borrowed until the call returns.
struct Batch {
  // Batch size x input shape. Tokens are given by their numbers, which floats hold exactly.
  absl::Span<const float> images;
  // Batch size; where the samples are tokens, batch size x tokens: what follows each of them.
  absl::Span<const int32_t> labels;
  absl::Span<const int64_t> samples;  // batch size; the sample's number in its dataset
  int count = 0;
  uint64_t draw = 0;  // with `samples`, seeds dropout: another step, another mask
};

// Sums over the samples of a batch, or over all their tokens, so that ranks with unequal shares add
// up.
struct BatchResult {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t count = 0;  // of samples
};

enum class Mode { kTrain, kEvaluate };

// Says that the gradient of parameter `index` (in its layout) is complete.
using GradientReady = std::function<void(int index)>;

// How a network computes. Flat arrays are float32 in any case.
enum class Precision {
  kFloat32,
  // Weights and activations rounded to bfloat16 for the layers, sums in float32: as torch.autocast,
  // but for normalizations, whose output is rounded too. On devices that say so.
  kBfloat16,
  // Everything in float32, and factors of products rounded to TF32's 10 bits where tensor cores
  // take them: torch's allow_tf32. On devices that say so.
  kTf32,
};

struct NetworkOptions {
  int batch_size = 1;
  uint64_t seed = 0;  // of dropout
  Precision precision = Precision::kFloat32;
};

// A model compiled for one device, one batch size and one pair of flat arrays. Reads parameters on
// every Forward, so a change between steps counts. Not thread-safe.
class Network {
 public:
  virtual ~Network() = default;

  // Runs the layers and the softmax cross-entropy over them.
  virtual BatchResult Forward(const Batch& batch, Mode mode) = 0;
  // Once after Forward in kTrain: overwrites every gradient with the sum over the batch's labels
  // times `scale` (1 / labels for the batch's mean; sampler.h says which scale makes the mean over
  // ranks exact). Calls `ready` on this thread, once for each parameter, in layout order. On a
  // device with a stream the gradient is complete for what is given to the stream from then on.
  virtual void Backward(float scale, const GradientReady& ready) = 0;
  // Copies what the last layer gave in the last Forward, batch size x its shape, to the host. Not
  // after Backward, which may use that memory.
  virtual void ReadLogits(absl::Span<float> logits) const = 0;
};

// A flat array in the memory of one device; freed with the handle.
class Array {
 public:
  virtual ~Array() = default;
  // On a device other than the CPU these addresses are for its kernels and collectives only.
  virtual absl::Span<float> span() = 0;
};

// One array that an optimizer carries from step to step.
struct OptimizerState {
  absl::string_view name;  // PyTorch's: "velocity", "exp_avg", "exp_avg_sq"
  absl::Span<float> values;
};

// Updates values from gradients.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The step of this number, counted from 1 since the training began.
  virtual void Step(int64_t number) = 0;
  // What it carries from step to step, each array in the layout of the values: a training that goes
  // on from values, state and number takes the same steps. On a device other than the CPU, as
  // Array::span().
  virtual std::vector<OptimizerState> state() = 0;
};

// What a step tells beside its gradients. It lies behind them, so ranks average it with them and it
// costs no collective of its own.
struct StepTail {
  float loss = 0;  // of the rank's share, scaled as its gradients are; averaged, the batch's mean
  float leaving = 0;  // above 0 where this rank, averaged any rank, wishes to leave
};
inline constexpr int64_t kStepTailSize = 2;  // in floats

// Whole training steps of one rank: Forward in kTrain, Backward, the mean of gradients and tail
// over ranks, and the optimizer's step, begun with one call. What it does to values, gradients and
// the optimizer's state is what those calls would do, bit for bit. Not thread-safe.
class StepProgram {
 public:
  // Of one device, over the same arrays; all of it outlives the program.
  struct Parts {
    Network& network;
    Optimizer& optimizer;
    const Dataset& data;         // what the batches are of; copied to the device where it fits
    absl::Span<float> tail;      // kStepTailSize floats of the device's
    Reducer* reducer = nullptr;  // over gradients and tail; null in a rank that is alone
  };
  struct Input {
    // Where the data set is on the device, its `samples`, `count` and `draw` say all.
    Batch batch;
    float scale = 1;     // of the gradients and the loss
    int64_t number = 1;  // of the optimizer's step
    bool leaving = false;
  };

  virtual ~StepProgram() = default;

  // Begins a step and returns while it is computed; fewer than `under_way_max` are. What `input`
  // borrows is free when this returns. Errors: the group's. Ok says nothing of the step's own
  // collectives: Reducer::Settle does.
  virtual absl::Status Begin(const Input& input) = 0;
  // Waits for the oldest step that is under way. With a reducer the caller has settled that step by
  // Reducer::Settle.
  virtual StepTail End() = 0;
  // Steps that were begun and not ended.
  virtual int under_way() const = 0;
  // The same for all ranks of a world.
  virtual int under_way_max() const = 0;
  // Whether Begin finds the samples in the device's memory by their numbers.
  virtual bool has_data() const = 0;
};

// Where a rank computes. The CPU device defines what every other one must give; a device chooses
// its own memory formats and fusions inside a Network. One thread uses a device and all it made.
class Device {
 public:
  virtual ~Device() = default;

  // `size` zeroes. Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Array>> Allocate(int64_t size) = 0;
  // `values` and `gradients` have the layout LayOut(layers) and must outlive the network.
  // Errors: Unimplemented when the device has no form of a layer, or not the precision;
  // ResourceExhausted; Internal, with what the device's library says.
  virtual absl::StatusOr<std::unique_ptr<Network>> Compile(
      absl::Span<const model::CheckedLayer> layers, const NetworkOptions& options,
      absl::Span<const float> values, absl::Span<float> gradients) = 0;
  // `values` and `gradients` have equal sizes and must outlive the optimizer.
  // Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Optimizer>> MakeSgd(const SgdOptions& options,
                                                             absl::Span<float> values,
                                                             absl::Span<const float> gradients) = 0;
  // The same, for arrays in `layout`.
  virtual absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdamW(
      const AdamWOptions& options, const ParameterLayout& layout, absl::Span<float> values,
      absl::Span<const float> gradients) = 0;
  // Of a network and an optimizer that this device made; null where the device has no faster way
  // than their own calls. Errors: as Compile's.
  virtual absl::StatusOr<std::unique_ptr<StepProgram>> MakeStepProgram(
      const StepProgram::Parts& parts) = 0;
  // Copies between the host and arrays of this device; sizes must be equal. Both are done when they
  // return, after all that was begun before; whether they could be, status() says.
  virtual void Write(absl::Span<const float> host, absl::Span<float> array) = 0;
  virtual void Read(absl::Span<const float> array, absl::Span<float> host) const = 0;

  // Which of several ways to compute was found fastest for the networks compiled so far, in words
  // of the device's own; empty where there is one way. A device of the same kind that takes it
  // before it compiles the same computes in the same ways, and so the same bits.
  virtual std::string plans() const { return ""; }
  virtual void TakePlans(absl::string_view /*plans*/) {}

  // The first error of the device or its library since it was opened. Results after an error mean
  // nothing; a device does not recover. Always OK on the CPU.
  virtual absl::Status status() const = 0;
  // What all the device's work is given to, one after another: a cudaStream_t. Null on the CPU,
  // whose arrays are the host's memory and whose calls return when they are done.
  virtual void* stream() const = 0;
};

// What an array of `device` holds, or its error: what was read after one means nothing.
absl::StatusOr<std::vector<float>> ReadArray(const Device& device, absl::Span<const float> array);

// Sets the number of compute threads of the calling thread, which is the one that then opens and
// uses the device: compiled networks remember it. Bits of results depend on it.
absl::StatusOr<std::unique_ptr<Device>> OpenCpu(int threads);
// The widest vector instructions that the library computes layers with on this host, as "avx2".
// Bits of results depend on them.
std::string CpuInstructionSet();
// The GPU of this number among those that the process sees. One thread at a time uses it.
// Errors: Unimplemented in a program without CUDA; Unavailable where the driver or the GPU is
// missing, saying which; Internal, with what the driver says.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int index);

}  // namespace dp::engine
