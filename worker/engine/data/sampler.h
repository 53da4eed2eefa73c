#pragma once

#include <cstdint>
#include <vector>

namespace dp::engine {

// torch.randperm(n) of a CPU generator seeded with `seed`, bit for bit (n below 2^32).
std::vector<int64_t> RandomPermutation(int64_t n, uint64_t seed);

// torch.utils.data.DistributedSampler, bit for bit: the indices of one rank for one epoch, padded
// to equal shares as PyTorch does, or cut to them (drop_last).
struct DistributedSampler {
  int64_t n = 0;
  int replicas = 1;
  int rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;

  std::vector<int64_t> Indices(uint64_t epoch) const;
};

// One rank's part of one step.
struct Share {
  std::vector<int64_t> samples;  // numbers of its samples; may be fewer than capacity, or none
  int64_t global_count = 0;      // samples of all ranks in this step
};

struct GlobalBatchOptions {
  int64_t n = 0;  // samples of the dataset
  int64_t global_batch_size = 1;
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;  // leave out the short batch at the end of an epoch
};

// Deals global batches to ranks. The order of an epoch is DistributedSampler's before padding.
// Global batch s is samples [s B, (s + 1) B) of that order; the last one may be short. Rank r takes
// positions r, r + W, r + 2 W ... of each global batch. Every world size therefore trains on the
// same global batches, and no sample is used twice. If W divides B, each rank's batches are those
// of DistributedSampler with DataLoader(batch_size = B / W), except for padding.
//
// Shares may differ by one sample, so a mean of the ranks' means would weigh samples unequally.
// Each rank therefore scales the *sum* over its samples by GradientScale(). The mean of the scaled
// sums over ranks is the mean over the global batch.
//
// Not thread-safe. While a Prefetch reads it, nobody may call SetEpoch.
class GlobalBatchSampler {
 public:
  explicit GlobalBatchSampler(const GlobalBatchOptions& options);

  // Draws the order of `epoch`. Epoch 0 is drawn at construction.
  void SetEpoch(uint64_t epoch);
  uint64_t epoch() const { return epoch_; }

  // Steps of an epoch, equal on all ranks.
  int64_t steps() const;
  // The most samples that any rank takes in one step: ceil(B / W).
  int capacity() const;
  // 0 <= step < steps().
  Share share(int64_t step) const;

 private:
  const GlobalBatchOptions options_;
  uint64_t epoch_ = 0;
  std::vector<int64_t> order_;
};

// The scale of a rank's sum of gradients, which are then averaged over ranks: world_size /
// global_count. `global_count` is the number of labels of the global batch on all ranks.
float GradientScale(int64_t global_count, int world_size);

}  // namespace dp::engine
