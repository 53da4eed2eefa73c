#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/data_parallel.h"
#include "worker/library/data_parallel/device_threads.h"

namespace dp::library {

// The working part of DataParallel: its module, and the replicas of the last forward.
class Replicas {
 public:
  Replicas(distributed::ReplicableModule& module, const distributed::DataParallelOptions& options);

  distributed::Tensor Forward(const distributed::Arguments& inputs);
  void Backward(const distributed::Tensor& output_gradient);

  distributed::ReplicableModule& module() const { return module_; }
  const distributed::DataParallelOptions& options() const { return options_; }

 private:
  // One device, or none, needs no replica.
  bool IsAlone() const { return options_.device_ids.size() < 2; }
  void SayIdleDevices(size_t parts);
  // The module, and copies of it for the other devices: `count` in all.
  std::vector<distributed::ReplicableModule*> Replicate(size_t count);
  // The gradient by each replica's output.
  std::vector<distributed::Tensor> PartsOf(const distributed::Tensor& output_gradient) const;

  distributed::ReplicableModule& module_;
  const distributed::DataParallelOptions options_;
  std::optional<DeviceThreads> threads_;
  // By device. The module is the first one's replica, and has no copy.
  std::vector<std::unique_ptr<distributed::ReplicableModule>> copies_;
  // Those of the last forward, until its backward.
  std::vector<distributed::ReplicableModule*> replicas_;
  std::vector<std::vector<int64_t>> part_shapes_;  // of their outputs
  std::vector<int64_t> output_shape_;
  bool said_idle_ = false;
};

}  // namespace dp::library
