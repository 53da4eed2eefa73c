#include "worker/engine/device/cuda/snapshots/cuda_snapshots.h"

#include <atomic>
#include <string>
#include <utility>

#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_download.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {

// Memory of one snapshot. It outlives the device while a snapshot uses it.
struct SnapshotSpace {
  int device = 0;
  Download download;
  Event copied;  // the arrays are in `copy`
  DeviceBuffer copy;
  std::atomic<bool> taken = false;
};

namespace {

// Some milliseconds of the link to the host: long enough that the start of a copy costs little.
constexpr int64_t kChunkBytes = int64_t{16} << 20;
// Stays free for what NCCL and the driver allocate later.
constexpr int64_t kReserveBytes = int64_t{512} << 20;

int64_t BytesOf(absl::Span<const float> array) {
  return static_cast<int64_t>(array.size() * sizeof(float));
}

int64_t BytesOf(absl::Span<const absl::Span<const float>> arrays) {
  int64_t bytes = 0;
  for (const absl::Span<const float> array : arrays) bytes += BytesOf(array);
  return bytes;
}

// Whether the space has memory on the device for a copy of `bytes`.
absl::StatusOr<bool> HasCopy(SnapshotSpace& space, int64_t bytes) {
  if (space.copy.bytes() >= bytes) return true;
  size_t free = 0;
  size_t total = 0;
  DP_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free, &total));
  if (static_cast<int64_t>(free) - bytes < kReserveBytes) return false;
  absl::StatusOr<DeviceBuffer> copy = DeviceBuffer::Allocate(bytes);
  if (absl::IsResourceExhausted(copy.status())) return false;
  DP_RETURN_IF_ERROR(copy.status());
  space.copy = *std::move(copy);
  return true;
}

absl::StatusOr<std::vector<std::vector<float>>> ReadAll(
    SnapshotSpace& space, absl::Span<const absl::Span<const float>> arrays) {
  std::vector<std::vector<float>> contents;
  for (const absl::Span<const float> array : arrays) {
    contents.emplace_back(array.size());
    DP_RETURN_IF_ERROR(space.download.Copy(array.data(), BytesOf(array), contents.back().data()));
  }
  return contents;
}

// A copy on the device. The arrays lie in it one behind the other.
class SnapshotOnDevice final : public Snapshot {
 public:
  SnapshotOnDevice(std::shared_ptr<SnapshotSpace> space,
                   absl::Span<const absl::Span<const float>> arrays)
      : space_(std::move(space)) {
    space_->taken = true;
    const auto* at = space_->copy.as<const float>();
    for (const absl::Span<const float> array : arrays) {
      copies_.emplace_back(at, array.size());
      at += array.size();
    }
  }
  ~SnapshotOnDevice() override { space_->taken = false; }

  absl::StatusOr<std::vector<std::vector<float>>> Take() override {
    DP_CUDA_RETURN_IF_ERROR(cudaSetDevice(space_->device));
    DP_RETURN_IF_ERROR(space_->copied.Synchronize());
    return ReadAll(*space_, copies_);
  }

  // Copies the arrays in the stream's order.
  absl::Status Fill(absl::Span<const absl::Span<const float>> arrays, cudaStream_t stream) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(const_cast<float*>(copies_[i].data()),
                                              arrays[i].data(), BytesOf(arrays[i]),
                                              cudaMemcpyDeviceToDevice, stream));
    }
    return space_->copied.Record(stream);
  }

 private:
  const std::shared_ptr<SnapshotSpace> space_;
  std::vector<absl::Span<const float>> copies_;
};

}  // namespace

absl::Status Snapshots::MakeSpace(DeviceContext& context) {
  auto space = std::make_shared<SnapshotSpace>();
  space->device = context.index();
  DP_ASSIGN_OR_RETURN(space->download, Download::Make(kChunkBytes));
  DP_ASSIGN_OR_RETURN(space->copied, Event::Make());
  space_ = std::move(space);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Snapshot>> Snapshots::Take(
    DeviceContext& context, absl::Span<const absl::Span<const float>> arrays) {
  if (space_ == nullptr) {
    const absl::Status made = MakeSpace(context);
    if (absl::IsResourceExhausted(made)) {
      if (!said_pageable_) {
        Log(Severity::kWarning, "gpu_snapshot_pageable", {{"error", std::string(made.message())}});
      }
      said_pageable_ = true;
      return nullptr;
    }
    DP_RETURN_IF_ERROR(made);
  }
  if (space_->taken) return nullptr;
  DP_ASSIGN_OR_RETURN(const bool copies, HasCopy(*space_, BytesOf(arrays)));
  if (copies) {
    auto snapshot = std::make_unique<SnapshotOnDevice>(space_, arrays);
    DP_RETURN_IF_ERROR(snapshot->Fill(arrays, context.stream()));
    return snapshot;
  }
  DP_RETURN_IF_ERROR(context.Synchronize());
  DP_ASSIGN_OR_RETURN(auto contents, ReadAll(*space_, arrays));
  return HostSnapshot(std::move(contents));
}

}  // namespace dp::engine::cuda
