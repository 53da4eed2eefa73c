#include "worker/engine/device/cuda/network/cuda_data_set.h"

#include <vector>

#include "base/status.h"
#include "worker/engine/device/cuda/network/cuda_data_windows.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
absl::Status CopyTo(absl::Span<const T> from, char* to, cudaStream_t stream) {
  DP_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDataset>> CudaDataset::Upload(DeviceContext& context,
                                                                 const Dataset& data) {
  if (data.has_targets()) return nullptr;  // kernels gather labels alone
  const Storage storage = data.storage();
  size_t free = 0;
  size_t total = 0;
  DP_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free, &total));
  const int64_t bytes = StoredBytes(storage, data.size());
  if (bytes == 0 || !FitsOnDevice(bytes, static_cast<int64_t>(free))) return nullptr;
  std::unique_ptr<CudaDataset> set(new CudaDataset);
  DP_RETURN_IF_ERROR(
      std::visit([&](const auto& stored) { return set->Copy(context, stored, data); }, storage));
  DP_RETURN_IF_ERROR(context.Synchronize());
  return set;
}

absl::Status CudaDataset::Copy(DeviceContext& context, const StoredImages& stored,
                               const Dataset& data) {
  DP_ASSIGN_OR_RETURN(samples_, DeviceBuffer::Allocate(static_cast<int64_t>(stored.images.size())));
  DP_ASSIGN_OR_RETURN(beside_, DeviceBuffer::Allocate(static_cast<int64_t>(stored.labels.size())));
  DP_RETURN_IF_ERROR(CopyTo(stored.images, samples_.as<char>(), context.stream()));
  DP_RETURN_IF_ERROR(CopyTo(stored.labels, beside_.as<char>(), context.stream()));
  images_ = {.images = samples_.as<uint8_t>(),
             .labels = beside_.as<uint8_t>(),
             .pixels = model::ElementCount(data.sample_shape()),
             .mean = stored.mean,
             .std = stored.std};
  return absl::OkStatus();
}

absl::Status CudaDataset::Copy(DeviceContext& context, const StoredTokens& stored,
                               const Dataset& data) {
  const int64_t context_tokens = data.sample_shape()[0];
  const std::vector<int64_t> windows = WindowsOf(stored, context_tokens, data.size());
  const auto window_bytes = static_cast<int64_t>(windows.size() * sizeof(int64_t));
  const int64_t token_bytes = StoredBytes(stored, data.size()) - window_bytes;
  DP_ASSIGN_OR_RETURN(samples_, DeviceBuffer::Allocate(token_bytes));
  DP_ASSIGN_OR_RETURN(beside_, DeviceBuffer::Allocate(window_bytes));
  char* to = samples_.as<char>();
  for (const StoredTokens::File& file : stored.files) {
    DP_RETURN_IF_ERROR(CopyTo(file.tokens, to, context.stream()));
    to += file.tokens.size() * sizeof(uint16_t);
  }
  DP_RETURN_IF_ERROR(CopyTo(absl::MakeConstSpan(windows), beside_.as<char>(), context.stream()));
  tokens_ = {.tokens = samples_.as<uint16_t>(),
             .windows = beside_.as<int64_t>(),
             .tokens_per_sample = context_tokens};
  of_tokens_ = true;
  return context.Synchronize();  // `windows` is read until then
}

absl::Status CudaDataset::Gather(cudaStream_t stream, const LayerProgram& program,
                                 const NetworkMemory& memory) const {
  const auto* const samples = memory.array<int64_t>(program.samples);
  auto* const labels = memory.array<int32_t>(program.labels);
  if (of_tokens_) {
    DP_CUDA_RETURN_IF_ERROR(GatherTokens(stream, tokens_, samples, program.batch_size,
                                         memory.step(), memory.array<int32_t>(program.tokens),
                                         labels));
  } else {
    DP_CUDA_RETURN_IF_ERROR(GatherImages<float>(stream, images_, samples, program.batch_size,
                                                memory.step(), memory.array<float>(program.images),
                                                labels));
  }
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda
