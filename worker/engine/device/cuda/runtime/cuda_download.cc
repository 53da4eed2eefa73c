#include "worker/engine/device/cuda/runtime/cuda_download.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

constexpr int kDownloadChunks = 2;

}  // namespace

absl::StatusOr<Download> Download::Make(int64_t chunk_bytes) {
  DP_CHECK(chunk_bytes > 0);
  Download download;
  download.chunk_bytes_ = chunk_bytes;
  DP_ASSIGN_OR_RETURN(download.stream_, Stream::Make());
  for (int i = 0; i < kDownloadChunks; ++i) {
    DP_ASSIGN_OR_RETURN(download.filled_.emplace_back(), Event::Make());
  }
  void* memory = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaMallocHost(&memory, kDownloadChunks * chunk_bytes));
  download.memory_ = static_cast<char*>(memory);
  return download;
}

// After an error a copy may still write the chunks.
Download::~Download() {
  if (memory_ == nullptr) return;
  cudaStreamSynchronize(stream_.get());
  cudaFreeHost(memory_);
}

absl::Status Download::Copy(const void* from, int64_t bytes, void* to) {
  const int64_t pieces = (bytes + chunk_bytes_ - 1) / chunk_bytes_;
  for (int64_t next = 0; next <= pieces; ++next) {
    if (next < pieces) {
      DP_RETURN_IF_ERROR(Start(PieceAt(next, bytes), static_cast<const char*>(from)));
    }
    if (next > 0) DP_RETURN_IF_ERROR(Finish(PieceAt(next - 1, bytes), static_cast<char*>(to)));
  }
  return absl::OkStatus();
}

Download::Piece Download::PieceAt(int64_t number, int64_t bytes) const {
  const int64_t first = number * chunk_bytes_;
  return {.chunk = static_cast<int>(number % kDownloadChunks),
          .first = first,
          .bytes = std::min(chunk_bytes_, bytes - first)};
}

absl::Status Download::Start(const Piece& piece, const char* from) {
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(chunk(piece.chunk), from + piece.first, piece.bytes,
                                          cudaMemcpyDeviceToHost, stream_.get()));
  return filled_[piece.chunk].Record(stream_.get());
}

absl::Status Download::Finish(const Piece& piece, char* to) {
  DP_RETURN_IF_ERROR(filled_[piece.chunk].Synchronize());
  std::memcpy(to + piece.first, chunk(piece.chunk), piece.bytes);
  return absl::OkStatus();
}

void Download::Swap(Download& other) {
  std::swap(memory_, other.memory_);
  std::swap(chunk_bytes_, other.chunk_bytes_);
  std::swap(stream_, other.stream_);
  std::swap(filled_, other.filled_);
}

}  // namespace dp::engine::cuda
