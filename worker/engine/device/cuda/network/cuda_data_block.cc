#include "worker/engine/device/cuda/network/cuda_data_block.h"

#include <algorithm>

#include "base/check.h"

namespace dp::engine::cuda {
namespace {

int64_t AlignedBytes(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

template <typename T>
absl::Span<T> SpanAt(char* block, int64_t offset, int64_t size) {
  return {reinterpret_cast<T*>(block + offset), static_cast<size_t>(size)};
}

// Copies the first `known` elements of `from`, then writes zeroes. Checks that each copied element
// is in [0, limit), unless `limit` is 0.
template <typename To, typename From>
void CopyKnown(absl::Span<const From> from, int64_t known, int64_t limit, absl::Span<To> to) {
  DP_CHECK(static_cast<int64_t>(from.size()) >= known);
  for (int64_t i = 0; i < known; ++i) {
    to[i] = static_cast<To>(from[i]);
    DP_CHECK(limit == 0 || (to[i] >= To{0} && to[i] < static_cast<To>(limit)));
  }
  std::fill(to.begin() + known, to.end(), To{0});
}

// Writes the labels or targets that the loss compares with.
void FillExpected(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                  char* block) {
  const op::TakeLoss& loss = program.take_loss();
  if (program.targets != kNone) {
    const int64_t size = program.batch_size * loss.classes;
    return CopyKnown<float, float>(batch.targets, batch.count * loss.classes, /*limit=*/0,
                                   SpanAt<float>(block, place.labels, size));
  }
  const int64_t size = program.arrays[program.labels].size;
  const bool takes_labels = std::holds_alternative<CrossEntropyLoss>(loss.loss);
  const int64_t known = takes_labels ? batch.count * loss.rows_per_sample : 0;
  CopyKnown<int32_t, int32_t>(batch.labels, known, loss.classes,
                              SpanAt<int32_t>(block, place.labels, size));
}

}  // namespace

BatchBlock PlanBatchBlock(const LayerProgram& program) {
  const auto bytes = [&](ArrayId id) {
    const ProgramArray& array = program.arrays[id];
    return AlignedBytes(array.size * BytesOf(array.stored, program.precision));
  };
  BatchBlock block;
  block.samples = block.step + kStepInputBytes;
  block.labels = block.samples + bytes(program.samples);
  block.input = block.labels + bytes(program.labels != kNone ? program.labels : program.targets);
  block.bytes = block.input + bytes(program.tokens != kNone ? program.tokens : program.images);
  return block;
}

void FillSamples(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                 char* block) {
  DP_CHECK(batch.count >= 0 && batch.count <= program.batch_size);
  CopyKnown<int64_t, int64_t>(batch.samples, batch.count, /*limit=*/0,
                              SpanAt<int64_t>(block, place.samples, program.batch_size));
}

void FillBatchBlock(const LayerProgram& program, const BatchBlock& place, const Batch& batch,
                    char* block) {
  FillSamples(program, place, batch, block);
  FillExpected(program, place, batch, block);
  const bool of_tokens = program.tokens != kNone;
  const int64_t size = program.arrays[of_tokens ? program.tokens : program.images].size;
  const int64_t known = size / program.batch_size * batch.count;
  if (of_tokens) {
    CopyKnown<int32_t, float>(batch.images, known, program.vocabulary,
                              SpanAt<int32_t>(block, place.input, size));
  } else {
    CopyKnown<float, float>(batch.images, known, /*limit=*/0,
                            SpanAt<float>(block, place.input, size));
  }
}

}  // namespace dp::engine::cuda
