#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "dp/sync_batch_norm.h"
#include "worker/library/joined_group.h"
#include "worker/library/memory/group_memory.h"

namespace dp::library {

// Batch normalization over the ranks of a group: the implementation of SyncBatchNorm, whose header
// says what each call does. Throws DistError.
class BatchNorm {
 public:
  BatchNorm(size_t channels, const distributed::SyncBatchNorm::Options& options);

  std::span<float> weight() const { return SpanOf(weight_); }
  std::span<float> bias() const { return SpanOf(bias_); }
  std::span<float> weight_grad() const { return SpanOf(weight_grad_); }
  std::span<float> bias_grad() const { return SpanOf(bias_grad_); }
  std::span<float> running_mean() const { return SpanOf(running_mean_); }
  std::span<float> running_var() const { return SpanOf(running_var_); }

  // `batches` is the number of forwards, this one included.
  void Forward(std::span<const float> input, std::span<float> output, size_t samples,
               int64_t batches);
  void Evaluate(std::span<const float> input, std::span<float> output, size_t samples);
  void Backward(std::span<const float> input, std::span<const float> output_grad,
                std::span<float> input_grad, size_t samples);

 private:
  std::span<float> SpanOf(const BorrowedMemory& floats) const {
    return {reinterpret_cast<float*>(floats->data()), channels_};
  }
  static void CheckOptions(size_t channels, const distributed::SyncBatchNorm::Options& options);
  BorrowedMemory Floats(float value);
  BorrowedMemory Doubles(size_t count) { return memory_.Borrow(count * sizeof(double)); }

  // The shape of arrays that `call` was given.
  ChannelShape ShapeOf(absl::string_view call, std::initializer_list<distributed::Elements> arrays,
                       size_t samples) const;
  void CheckCount(const ChannelShape& mine, const double* packed);
  BatchNormState StateIn(const BorrowedMemory& doubles) const;

  const size_t channels_;
  const distributed::SyncBatchNorm::Options options_;
  const distributed::ProcessGroup group_;
  GroupMemory& memory_;
  const BorrowedMemory weight_, bias_, weight_grad_, bias_grad_, running_mean_, running_var_;
  const BorrowedMemory state_;           // the last forward's
  std::optional<ChannelShape> forward_;  // of the last forward
};

}  // namespace dp::library
