#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/cuda/cuda_api.h"

// Memory of GPUs, and copies between memories.

namespace dp::library {

// A GPU, and the stream on which the library works there.
struct GpuUse {
  engine::CudaApi* cuda = nullptr;
  int device = 0;
  void* stream = nullptr;
};

// Memory of a GPU. Holds anything at first.
class GpuMemory {
 public:
  // Chooses the calling thread's device. Errors: those of CudaApi.
  static absl::StatusOr<GpuMemory> Allocate(const GpuUse& use, size_t bytes);
  absl::Span<uint8_t> bytes() const { return {memory_.get(), bytes_}; }
  // Whoever calls this frees the memory.
  uint8_t* Release() && { return memory_.release(); }

 private:
  struct FreedByCuda {
    GpuUse use;
    void operator()(uint8_t* memory) const;
  };
  GpuMemory(std::unique_ptr<uint8_t, FreedByCuda> memory, size_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}

  std::unique_ptr<uint8_t, FreedByCuda> memory_;
  size_t bytes_ = 0;
};

// Chooses the calling thread's device. The destructor chooses the one before it again. Throws
// DistError, whose message begins with `context`.
class ChosenGpu {
 public:
  ChosenGpu(engine::CudaApi& cuda, int device, absl::string_view context);
  ~ChosenGpu();
  ChosenGpu(const ChosenGpu&) = delete;
  ChosenGpu& operator=(const ChosenGpu&) = delete;

 private:
  engine::CudaApi& cuda_;
  const int before_;
};

// Blocks until the GPU has done all work it was given. Throws as ChosenGpu.
void AwaitGpu(int device, absl::string_view context);

// Bytes of the host's memory, or of a GPU's.
struct MemoryPlace {
  uint8_t* begin = nullptr;
  std::optional<int> gpu;
};

// Between two places within one GPU, the copy is work of its default stream, and this returns at
// once. Between two memories it copies after all earlier work of the GPU whose bytes it reads, and
// waits. Throws as ChosenGpu.
void CopyBytes(const MemoryPlace& from, const MemoryPlace& to, size_t bytes,
               absl::string_view context);

}  // namespace dp::library
