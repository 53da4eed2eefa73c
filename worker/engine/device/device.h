#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/model/shape_check.h"
#include "worker/engine/nn/loss.h"
#include "worker/engine/nn/optimizer.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

class Dataset;
class Reducer;

// The samples of one step on one rank, in host memory. The first `count` rows are samples. The rows
// above, up to the network's batch size, are padding: the network computes them, but they add
// nothing to loss, accuracy or gradients. Borrowed until the call returns.
struct Batch {
  // Batch size x input shape. Tokens are given by their numbers, which floats hold exactly.
  absl::Span<const float> images;
  // Batch size; for tokens, batch size x tokens: the token that follows each.
  absl::Span<const int32_t> labels;
  absl::Span<const int64_t> samples;  // batch size; the sample's number in its dataset
  int count = 0;
  uint64_t draw = 0;  // with `samples`, seeds dropout: another step, another mask
  // Batch size x target shape: the numbers to predict. Data sets have either labels or targets.
  absl::Span<const float> targets;
  // Backward multiplies the loss's gradient by this, beside its scale. For losses that weigh
  // labels: the labels of the global batch over the sum of their weights. Not on every device.
  float loss_factor = 1;
};

// Sums over the samples of a batch, or over all their tokens, so that results of ranks with unequal
// shares add up.
struct BatchResult {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t count = 0;  // of samples
};

// The work of one of the devices on which a network computes, since it was compiled.
struct DeviceLoad {
  int64_t samples = 0;
  absl::Duration busy;  // computing, evaluations included
};

enum class Mode { kTrain, kEvaluate };

// Reports that the gradient of parameter `index` (in its layout) is complete.
using GradientReady = std::function<void(int index)>;

// How a network computes. Flat arrays are float32 in any case.
enum class Precision {
  kFloat32,
  // Layers take weights and activations rounded to bfloat16, and sum in float32. As torch.autocast,
  // except that on GPUs normalizations round their output, too. On CPUs only convolutions and
  // linear layers round; values between layers are float32. Not on every device.
  kBfloat16,
  // Everything in float32, but tensor cores take the factors of products rounded to TF32's 10 bits:
  // torch's allow_tf32. Not on every device.
  kTf32,
};

// Exchanges numbers among the ranks of a world, in the middle of a network's Forward or Backward.
// It is a collective: every rank computes the same network, and calls it in the same order. After
// an error of the group all numbers are 0. Every later operation of the group then reports the
// error, and the step's results must not be used.
struct RankExchange {
  int ranks = 1;
  // Afterwards `all` has the numbers of every rank, in rank order: ranks x mine.size().
  std::function<void(absl::Span<const double> mine, absl::Span<double> all)> gather;
};

struct NetworkOptions {
  int batch_size = 1;
  uint64_t seed = 0;  // of dropout
  Precision precision = Precision::kFloat32;
  Loss loss = CrossEntropyLoss();
  // The same bits in every run. Otherwise a device may choose ways to compute that are faster, and
  // whose results differ in the last bits from run to run. The CPU has none.
  bool deterministic = true;
  // Thread blocks that collectives run on a GPU beside backward. Backward's products leave them as
  // many of the GPU's processors. 0 if the rank is alone.
  int collective_blocks = 0;
  // For batch norms with `sync`; without it they take this rank's samples. Not on every device.
  RankExchange exchange = {};
};

// A model compiled for one device, one batch size and one pair of flat arrays. Reads parameters on
// every Forward, so a change between steps takes effect. Not thread-safe.
class Network {
 public:
  virtual ~Network() = default;

  // Runs the layers, then the loss on their output.
  virtual BatchResult Forward(const Batch& batch, Mode mode) = 0;
  // Call once after Forward in kTrain. Overwrites every gradient with the sum over the batch's
  // labels times `scale` and the batch's `loss_factor`. 1 / labels gives the batch's mean;
  // sampler.h has the scale that makes the mean over ranks exact. Calls `ready` on this thread,
  // once for each parameter, in layout order. On a device with a stream, the gradient is complete
  // for work given to the stream from then on.
  virtual void Backward(float scale, const GradientReady& ready) = 0;
  // Copies the last layer's output in the last Forward (batch size x its shape) to the host. Not
  // after Backward, which may use that memory.
  virtual void ReadLogits(absl::Span<float> logits) const = 0;
  // The load of each device, if there are several: those of replicas.h, or those on which layers
  // are placed. Empty: one device computes all.
  virtual std::vector<DeviceLoad> loads() const { return {}; }
};

// A flat array in the memory of one device; freed with the handle.
class Array {
 public:
  virtual ~Array() = default;
  // On a device other than the CPU, only its kernels and collectives may use these addresses.
  virtual absl::Span<float> span() = 0;
};

// The results of a step beside its gradients. The tail lies behind the gradients, so the ranks
// average both together and the tail needs no collective of its own.
struct StepTail {
  float loss = 0;     // of the rank's share, scaled like its gradients; averaged, the batch's mean
  float leaving = 0;  // above 0 if this rank wants to leave; averaged, if any rank does
  // Not behind the gradients, as it is known only after them: Optimizer::gradient_norm.
  float gradient_norm = 0;
};
inline constexpr int64_t kStepTailSize = 2;  // the floats behind the gradients

// Whole training steps of one rank, each begun with one call. A step is Forward in kTrain,
// Backward, the mean of gradients and tail over ranks, and the optimizer's step. Values, gradients
// and the optimizer's state change as by those calls, bit for bit. Not thread-safe.
class StepProgram {
 public:
  // Parts of one device, over the same arrays; all of them outlive the program.
  struct Parts {
    Network& network;
    Optimizer& optimizer;
    const Dataset& data;         // the data set of the batches; copied to the device if it fits
    absl::Span<float> tail;      // kStepTailSize floats on the device
    Reducer* reducer = nullptr;  // over gradients and tail; null if the rank is alone
  };
  struct Input {
    // If the data set is on the device, only `samples`, `count` and `draw` are used.
    Batch batch;
    float scale = 1;  // of the gradients and the loss
    OptimizerStep step = {};
    bool leaving = false;
  };

  virtual ~StepProgram() = default;

  // Begins a step and returns while the device computes it. Before the call, fewer than
  // `under_way_max` steps may be in flight. The memory that `input` borrows is free when this
  // returns. Errors: the group's. Ok says nothing of the step's own collectives: Reducer::Settle
  // reports their errors.
  virtual absl::Status Begin(const Input& input) = 0;
  // Waits for the oldest step in flight. With a reducer, the caller must have settled that step by
  // Reducer::Settle.
  virtual StepTail End() = 0;
  // Steps that were begun and not ended.
  virtual int under_way() const = 0;
  // The same for all ranks of a world.
  virtual int under_way_max() const = 0;
  // Whether Begin takes samples from the device's memory, by their numbers.
  virtual bool has_data() const = 0;
};

// Arrays of a device as they were when the snapshot was taken. Another thread may read and destroy
// it while the device computes. It may outlive the device.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // The arrays' contents, in the order in which they were given. Call once; blocks until the
  // contents are on the host. Errors: the device's, also those of the work before the snapshot.
  virtual absl::StatusOr<std::vector<std::vector<float>>> Take() = 0;
};

// Where a rank computes. The CPU device defines the results of every other device; a device chooses
// its own memory formats and fusions inside a Network. One thread uses a device and all it made,
// except snapshots.
class Device {
 public:
  virtual ~Device() = default;

  // `size` zeros. Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Array>> Allocate(int64_t size) = 0;
  // `values` and `gradients` have the layout LayOut(layers) and must outlive the network.
  // Errors: Unimplemented the device lacks a layer or the precision; ResourceExhausted; Internal
  // with the message of the device's library; InvalidArgument with a plug-in's.
  virtual absl::StatusOr<std::unique_ptr<Network>> Compile(
      absl::Span<const model::CheckedLayer> layers, const NetworkOptions& options,
      absl::Span<const float> values, absl::Span<float> gradients) = 0;
  // `values` and `gradients` are arrays in `layout` and must outlive the optimizer.
  // Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
      const OptimizerOptions& options, const ParameterLayout& layout, absl::Span<float> values,
      absl::Span<const float> gradients) = 0;
  // For a network and an optimizer that this device made. Null if the device has nothing faster
  // than their own calls. Errors: as Compile's.
  virtual absl::StatusOr<std::unique_ptr<StepProgram>> MakeStepProgram(
      const StepProgram::Parts& parts) = 0;
  // sum = from if `first`, else sum += from. For gradients of several backwards; sizes are equal.
  virtual void Accumulate(absl::Span<const float> from, bool first, absl::Span<float> sum) = 0;
  // Copy between the host and arrays of this device; sizes must be equal. Both run after all
  // earlier work and are done on return; status() reports failures.
  virtual void Write(absl::Span<const float> host, absl::Span<float> array) = 0;
  virtual void Read(absl::Span<const float> array, absl::Span<float> host) const = 0;

  // Takes a snapshot of arrays of this device after all earlier work; later work does not change
  // the snapshot. Returns before the contents are on the host if the device has memory to spare.
  // Errors: the device's.
  virtual absl::StatusOr<std::unique_ptr<Snapshot>> TakeSnapshot(
      absl::Span<const absl::Span<const float>> arrays) const;
  // Whether no element of an array of this device is infinite or NaN. Errors: the device's.
  virtual absl::StatusOr<bool> AllFinite(absl::Span<const float> array) const;

  // The choices among several ways to compute that were found fastest for the networks compiled so
  // far, in the device's own words. Empty if there is only one way. A device of the same kind
  // that takes them before compiling the same networks computes in the same ways. It then gets the
  // same bits.
  virtual std::string plans() const { return ""; }
  virtual void TakePlans(absl::string_view /*plans*/) {}

  // The first error of the device or its library since it was opened. Results after an error mean
  // nothing; a device does not recover. On the CPU only layers of plug-ins have errors.
  virtual absl::Status status() const = 0;
  // The stream on which all the device's work runs in order: a cudaStream_t. Null on the CPU, whose
  // arrays are host memory and whose calls return when they are done.
  virtual void* stream() const = 0;
};

// The contents of an array of `device`. Errors: the device's; values read after an error mean
// nothing.
absl::StatusOr<std::vector<float>> ReadArray(const Device& device, absl::Span<const float> array);
// A snapshot whose contents are on the host already.
std::unique_ptr<Snapshot> HostSnapshot(std::vector<std::vector<float>> arrays);

// Sets the number of compute threads of the calling thread. The same thread must then open and use
// the device: compiled networks remember the number. Bits of results depend on it.
absl::StatusOr<std::unique_ptr<Device>> OpenCpu(int threads);
// The widest vector instructions that oneDNN uses on this host, as "avx2". Bits of results depend
// on them.
std::string CpuInstructionSet();
// Whether this host's processor multiplies in bfloat16, so that OpenCpu's device has kBfloat16.
bool CpuHasBfloat16();
// The GPU of this number among those that the process sees. One thread at a time uses it.
// Errors: Unimplemented in a program without CUDA; Unavailable names the missing driver or GPU;
// Internal with the driver's message.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int index);

}  // namespace dp::engine
