#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/data_parallel.h"
#include "worker/library/data_parallel/device_threads.h"
#include "worker/library/gpu/device.h"
#include "worker/library/memory/group_memory.h"

namespace dp::library {

// The devices of these names. Throws as CheckDevices and FindDevice.
std::vector<Device> FindDevices(std::span<const std::string> names);

// Other devices copy from the memory of the first, so a GPU's earlier work must be done.
void AwaitFirst(absl::Span<const Device> devices);

// The replica. Throws kInvalidArgument if it is null.
distributed::ReplicableModule& ReplicaOn(const std::string& device,
                                         distributed::ReplicableModule* replica);

// A copy of the module in the memory of the device. Called on the device's thread.
std::unique_ptr<distributed::ReplicableModule> ReplicaFor(
    const distributed::ReplicableModule& module, const Device& device);

// The working part of DataParallel: its module, and the replicas of the last forward.
class Replicas {
 public:
  Replicas(distributed::ReplicableModule& module, const distributed::DataParallelOptions& options);

  distributed::Tensor Forward(const distributed::Arguments& inputs);
  void Backward(const distributed::Tensor& output_gradient);

  distributed::ReplicableModule& module() const { return module_; }
  const distributed::DataParallelOptions& options() const { return options_; }

 private:
  // One CPU, or no device, needs no thread.
  bool IsAlone() const { return devices_.empty() || (devices_.size() == 1 && !devices_[0].gpu); }
  void SayIdleDevices(size_t parts);
  // The module, and copies of it for the other devices: `count` in all.
  std::vector<distributed::ReplicableModule*> Replicate(size_t count);
  // The gradient by each replica's output.
  std::vector<distributed::Tensor> PartsOf(const distributed::Tensor& output_gradient) const;

  distributed::ReplicableModule& module_;
  distributed::DataParallelOptions options_;  // with numbers for all GPUs
  std::vector<Device> devices_;
  Device output_device_;
  std::optional<DeviceThreads> threads_;
  std::optional<GroupMemory> first_memory_;  // that of the first GPU, where gradients are added
  // By device. The module is the first one's replica, and has no copy.
  std::vector<std::unique_ptr<distributed::ReplicableModule>> copies_;
  // Those of the last forward, until its backward.
  std::vector<distributed::ReplicableModule*> replicas_;
  std::vector<std::vector<int64_t>> part_shapes_;  // of their outputs
  std::vector<int64_t> output_shape_;
  bool said_idle_ = false;
};

}  // namespace dp::library
