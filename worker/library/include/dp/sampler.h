#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dp/errors.h"
#include "dp/namespace.h"

// Which samples of a dataset a rank takes: docs/library.md, Samples.

namespace dp::distributed {

// The fields of torch.utils.data.DistributedSampler.
struct SamplerOptions {
  // Each that is not given is that of the default group.
  std::optional<int> num_replicas = std::nullopt;
  std::optional<int> rank = std::nullopt;
  bool shuffle = true;
  // Equal on all ranks.
  uint64_t seed = 0;
  // Cuts the dataset to equal shares. Without it, shares are padded with repeated samples.
  bool drop_last = false;
};

// The sample numbers of one rank for one epoch, bit for bit those of PyTorch's sampler. A range:
//
//   for (int64_t sample : sampler) ...
//
// Not thread-safe. set_epoch invalidates iterators and references.
class DistributedSampler {
 public:
  // Draws epoch 0. Errors: kInvalidArgument names the option. kWrongState an option is not given
  // and there is no default group. kLimit there is no memory, also of set_epoch.
  explicit DistributedSampler(int64_t dataset_size, const SamplerOptions& options = {});

  // Draws the order of `epoch`. Call it before each epoch, with the same number on all ranks; else
  // every epoch has the same order.
  void set_epoch(uint64_t epoch);

  // Samples of this rank in one epoch; the same on all ranks and in all epochs.
  int64_t size() const { return static_cast<int64_t>(indices_.size()); }
  // How many of them, from the first one, are no padding. An evaluation counts only these.
  int64_t unpadded_size() const;
  const std::vector<int64_t>& indices() const { return indices_; }
  std::vector<int64_t>::const_iterator begin() const { return indices_.begin(); }
  std::vector<int64_t>::const_iterator end() const { return indices_.end(); }

  int num_replicas() const { return num_replicas_; }
  int rank() const { return rank_; }

 private:
  int64_t dataset_size_;
  SamplerOptions options_;
  int num_replicas_;
  int rank_;
  std::vector<int64_t> indices_;
};

}  // namespace dp::distributed
