#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/elements.h"
#include "worker/library/gpu/gpu_memory.h"
#include "worker/library/memory/array_math.h"

namespace dp::library {

// Bytes of a group's memory, whose last holder gives them back for the next who borrows.
using BorrowedMemory = std::shared_ptr<absl::Span<uint8_t>>;

// The memory in which the ranks of a group keep their models: the host's, or with backend nccl a
// GPU's. DataParallel sums in it, too. On a GPU every call is ordered on the program's stream,
// between the earlier and the later work. It returns at once, unless it says that it waits, and
// chooses the calling thread's device. Throws DistError: kUnsupported arithmetic on a GPU in a
// build without CUDA; kLimit no memory is left; else the GPU's. Calls come from one thread at a
// time.
class GroupMemory {
 public:
  // `context` begins the messages of errors.
  GroupMemory(std::optional<GpuUse> gpu, std::string context);

  bool is_gpu() const { return gpu_.has_value(); }

  // Holds anything at first, and begins at a multiple of 16 bytes. Memory that is given back stays
  // this object's for the next, until FreeSpare.
  BorrowedMemory Borrow(size_t bytes);
  void FreeSpare() { spare_->on_gpu.clear(); }

  void Zero(absl::Span<uint8_t> memory);
  // Within this memory, or from another GPU's; `to` has as many bytes.
  void Copy(absl::Span<const uint8_t> from, uint8_t* to);
  // To the host's memory, and from it. These wait for the stream.
  void Read(absl::Span<const uint8_t> from, void* to);
  void Write(const void* from, absl::Span<uint8_t> to);

  void Convert(const distributed::Elements& from, const distributed::MutableElements& to);
  void Scale(const distributed::MutableElements& values, double factor);
  // Takes floats of any types. Waits for the stream.
  double SumOfSquares(absl::Span<const distributed::Elements> arrays);

  // The rest of the arithmetic.
  ArrayMath& math();
  void Check(const absl::Status& status) const;

 private:
  // Memory that was given back, by size.
  struct Spare {
    std::multimap<size_t, GpuMemory> on_gpu;
  };

  void UseDevice() const;

  const std::optional<GpuUse> gpu_;
  const std::string context_;
  const std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
  std::unique_ptr<ArrayMath> math_;  // made at the first use
};

}  // namespace dp::library
