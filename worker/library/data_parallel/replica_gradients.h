#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/data_parallel.h"
#include "worker/library/gpu/device.h"
#include "worker/library/memory/group_memory.h"

namespace dp::library {

// The parameters of `module` lie in the memory of `device`, with their gradients. Throws
// kInvalidArgument, which begins with `who` and ends with `remedy`.
void CheckPlace(const std::string& who, distributed::ReplicableModule& module, const Device& device,
                const std::string& remedy);

// The gradients of a module and of its replicas, which are all on CPUs or all on GPUs. The module
// is replica 0.
class ReplicaGradients {
 public:
  // Errors: kInvalidArgument replicas have other parameters than the module, gradients of other
  // sizes than the parameters, or the module's own.
  ReplicaGradients(absl::Span<distributed::ReplicableModule* const> replicas,
                   absl::Span<const Device> devices);

  // Sets those of a replica to zero, and waits for that. Called on its device's thread.
  void Zero(size_t replica) const;

  // Add all gradients to those of the module, in one order. On CPUs each device's thread adds a
  // slice. On GPUs the first one adds all; `memory` is that of its GPU.
  void AddSlice(size_t replica) const;
  void AddAll(GroupMemory& memory) const;

 private:
  void CheckOwn(absl::Span<const Device> devices) const;

  const bool on_gpus_;
  std::vector<std::vector<distributed::MutableElements>> gradients_;  // by replica and parameter
};

}  // namespace dp::library
