#include "worker/engine/device/replicas/replicas.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/device/batch_part.h"
#include "worker/engine/device/device_threads.h"

namespace dp::engine {
namespace {

// One device's copy of a network.
struct Replica {
  std::unique_ptr<Array> memory;  // of its gradients; null for the first, which has the caller's
  absl::Span<float> gradients;
  std::unique_ptr<Network> network;
  BatchPart part;
  BatchResult result;  // of the last Forward
  int64_t samples = 0;
};

// Rows are those of a batch. Replicas are made, used and destroyed on their devices' threads.
class ReplicatedNetwork final : public Network {
 public:
  ReplicatedNetwork(DeviceThreads& threads, int batch_size, int parameters,
                    std::vector<Replica> replicas)
      : threads_(threads),
        batch_size_(batch_size),
        parameters_(parameters),
        replicas_(std::move(replicas)) {}

  ~ReplicatedNetwork() override {
    threads_.Run(0, devices(), [&](int d) { of(d).network.reset(); });
  }

  BatchResult Forward(const Batch& batch, Mode mode) override {
    sizes_ = PartsOfBatch(batch.count, devices());
    const int step = sizes_.front();
    threads_.Run(0, parts(), [&](int d) {
      const int count = sizes_[static_cast<size_t>(d)];
      Replica& replica = of(d);
      replica.result =
          replica.network->Forward(replica.part.Of(batch, d * step, count, RowsOfPart()), mode);
      replica.samples += count;
    });
    BatchResult sum;
    for (int d = 0; d < parts(); ++d) {
      sum.loss_sum += of(d).result.loss_sum;
      sum.correct += of(d).result.correct;
      sum.count += of(d).result.count;
    }
    return sum;
  }

  void Backward(float scale, const GradientReady& ready) override {
    threads_.Run(0, parts(), [&](int d) { of(d).network->Backward(scale, [](int) {}); });
    if (parts() > 1) threads_.Run(0, devices(), [&](int d) { AddSlice(d); });
    for (int index = 0; index < parameters_; ++index) ready(index);
  }

  void ReadLogits(absl::Span<float> logits) const override {
    const size_t row = logits.size() / static_cast<size_t>(batch_size_);
    std::vector<float> part(static_cast<size_t>(RowsOfPart()) * row);
    size_t first = 0;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      replicas_[d].network->ReadLogits(absl::MakeSpan(part));
      const size_t count = static_cast<size_t>(sizes_[d]) * row;
      std::copy_n(part.begin(), count, logits.begin() + static_cast<ptrdiff_t>(first));
      first += count;
    }
    std::fill(logits.begin() + static_cast<ptrdiff_t>(first), logits.end(), 0.0f);
  }

  std::vector<DeviceLoad> loads() const override {
    std::vector<DeviceLoad> loads;
    const std::vector<absl::Duration> busy = threads_.busy();
    for (size_t d = 0; d < replicas_.size(); ++d)
      loads.push_back({.samples = replicas_[d].samples, .busy = busy[d]});
    return loads;
  }

 private:
  // Each device adds a slice of all gradients.
  void AddSlice(int device) {
    const Slice slice = SliceOf(replicas_[0].gradients.size(), device, devices());
    std::vector<const void*> inputs;
    for (int d = 0; d < parts(); ++d) inputs.push_back(of(d).gradients.data() + slice.begin);
    ReduceInOrder(inputs, DataType::kFloat32, slice.count, {ReduceOp::kSum, ReduceOrder::kTree},
                  replicas_[0].gradients.data() + slice.begin);
  }

  int devices() const { return static_cast<int>(replicas_.size()); }
  int parts() const { return static_cast<int>(sizes_.size()); }
  int RowsOfPart() const { return PartsOfBatch(batch_size_, devices()).front(); }
  Replica& of(int device) { return replicas_[static_cast<size_t>(device)]; }

  DeviceThreads& threads_;
  const int batch_size_;
  const int parameters_;
  std::vector<Replica> replicas_;
  std::vector<int> sizes_;  // of the parts of the last batch
};

class ReplicaDevice final : public Device {
 public:
  // `first` is used on the caller's thread, and each of `devices` on its own.
  ReplicaDevice(std::unique_ptr<DeviceThreads> threads, std::unique_ptr<Device> first,
                std::vector<std::unique_ptr<Device>> devices)
      : threads_(std::move(threads)), first_(std::move(first)), devices_(std::move(devices)) {}

  absl::StatusOr<std::unique_ptr<Array>> Allocate(int64_t size) override {
    return first_->Allocate(size);
  }

  absl::StatusOr<std::unique_ptr<Network>> Compile(absl::Span<const model::CheckedLayer> layers,
                                                   const NetworkOptions& options,
                                                   absl::Span<const float> values,
                                                   absl::Span<float> gradients) override {
    NetworkOptions of_part = options;
    of_part.batch_size = PartsOfBatch(options.batch_size, threads_->size()).front();
    std::vector<Replica> replicas(devices_.size());
    std::vector<absl::Status> made(devices_.size());
    threads_->Run(0, threads_->size(), [&](int device) {
      const auto d = static_cast<size_t>(device);
      made[d] = MakeReplica(*devices_[d], layers, of_part, values,
                            d == 0 ? gradients : absl::Span<float>(), replicas[d]);
    });
    const auto parameters = static_cast<int>(LayOut(layers).parameters.size());
    auto network = std::make_unique<ReplicatedNetwork>(*threads_, options.batch_size, parameters,
                                                       std::move(replicas));
    for (const absl::Status& status : made) DP_RETURN_IF_ERROR(status);
    return network;
  }

  absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
      const OptimizerOptions& options, const ParameterLayout& layout, absl::Span<float> values,
      absl::Span<const float> gradients) override {
    return first_->MakeOptimizer(options, layout, values, gradients);
  }
  absl::StatusOr<std::unique_ptr<StepProgram>> MakeStepProgram(const StepProgram::Parts&) override {
    return nullptr;
  }
  void Accumulate(absl::Span<const float> from, bool first, absl::Span<float> sum) override {
    first_->Accumulate(from, first, sum);
  }
  void Write(absl::Span<const float> host, absl::Span<float> array) override {
    first_->Write(host, array);
  }
  void Read(absl::Span<const float> array, absl::Span<float> host) const override {
    first_->Read(array, host);
  }
  absl::StatusOr<bool> AllFinite(absl::Span<const float> array) const override {
    return first_->AllFinite(array);
  }
  absl::Status status() const override {
    absl::Status status = first_->status();
    for (const std::unique_ptr<Device>& device : devices_) status.Update(device->status());
    return status;
  }
  void* stream() const override { return nullptr; }

 private:
  // Has gradients of its own if `gradients` is empty.
  static absl::Status MakeReplica(Device& device, absl::Span<const model::CheckedLayer> layers,
                                  const NetworkOptions& options, absl::Span<const float> values,
                                  absl::Span<float> gradients, Replica& replica) {
    replica.gradients = gradients;
    if (gradients.empty()) {
      DP_ASSIGN_OR_RETURN(replica.memory, device.Allocate(static_cast<int64_t>(values.size())));
      replica.gradients = replica.memory->span();
    }
    DP_ASSIGN_OR_RETURN(replica.network,
                        device.Compile(layers, options, values, replica.gradients));
    return absl::OkStatus();
  }

  const std::unique_ptr<DeviceThreads> threads_;
  const std::unique_ptr<Device> first_;
  const std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace

std::vector<int> PartsOfBatch(int samples, int devices) {
  DP_CHECK(samples >= 0 && devices > 0);
  const int size = std::max(1, samples / devices + (samples % devices > 0 ? 1 : 0));
  std::vector<int> parts;
  for (int left = samples; left > 0; left -= parts.back()) parts.push_back(std::min(size, left));
  if (parts.empty()) parts.push_back(0);
  return parts;
}

absl::StatusOr<std::unique_ptr<Device>> OpenReplicas(
    int devices, const std::function<absl::StatusOr<std::unique_ptr<Device>>()>& open) {
  DP_CHECK(devices > 0);
  DP_ASSIGN_OR_RETURN(std::unique_ptr<Device> first, open());
  DP_CHECK(first->stream() == nullptr);
  auto threads = std::make_unique<DeviceThreads>(devices);
  std::vector<std::unique_ptr<Device>> opened(static_cast<size_t>(devices));
  std::vector<absl::Status> failures(opened.size());
  threads->Run(0, devices, [&](int device) {
    const auto d = static_cast<size_t>(device);
    absl::StatusOr<std::unique_ptr<Device>> one = open();
    failures[d] = one.status();
    if (one.ok()) opened[d] = *std::move(one);
  });
  for (const absl::Status& status : failures) DP_RETURN_IF_ERROR(status);
  return std::make_unique<ReplicaDevice>(std::move(threads), std::move(first), std::move(opened));
}

}  // namespace dp::engine
