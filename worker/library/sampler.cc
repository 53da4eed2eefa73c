#include "dp/sampler.h"

#include <algorithm>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "dp/distributed.h"
#include "worker/engine/data/sampler.h"

namespace dp::distributed {
namespace {

// A permutation draws 32 bits for each sample.
constexpr int64_t kSamplesMax = (int64_t{1} << 32) - 1;

[[noreturn]] void RejectSampler(ErrorKind kind, const std::string& why) {
  throw DistError(kind, absl::StrCat("DistributedSampler: ", why));
}

int OfDefaultGroup(const char* option, int (*read)(const ProcessGroup&)) {
  if (is_initialized()) return read(default_group());
  RejectSampler(ErrorKind::kWrongState,
                absl::StrCat(option, " is not given, and there is no default process group; give ",
                             "num_replicas and rank, or call init_process_group first"));
}

}  // namespace

DistributedSampler::DistributedSampler(int64_t dataset_size, const SamplerOptions& options)
    : dataset_size_(dataset_size),
      options_(options),
      num_replicas_(options.num_replicas ? *options.num_replicas
                                         : OfDefaultGroup("num_replicas", get_world_size)),
      rank_(options.rank ? *options.rank : OfDefaultGroup("rank", get_rank)) {
  if (dataset_size < 0 || dataset_size > kSamplesMax)
    RejectSampler(ErrorKind::kInvalidArgument,
                  absl::StrCat("dataset_size is ", dataset_size, "; give 0 to ", kSamplesMax));
  if (num_replicas_ < 1)
    RejectSampler(ErrorKind::kInvalidArgument,
                  absl::StrCat("num_replicas is ", num_replicas_, "; give 1 or more"));
  if (rank_ < 0 || rank_ >= num_replicas_)
    RejectSampler(ErrorKind::kInvalidArgument,
                  absl::StrCat("rank is ", rank_, " of ", num_replicas_, " replicas; give 0 to ",
                               num_replicas_ - 1));
  set_epoch(0);
}

void DistributedSampler::set_epoch(uint64_t epoch) {
  try {
    indices_ = engine::DistributedSampler{.n = dataset_size_,
                                          .replicas = num_replicas_,
                                          .rank = rank_,
                                          .shuffle = options_.shuffle,
                                          .seed = options_.seed,
                                          .drop_last = options_.drop_last}
                   .Indices(epoch);
  } catch (const std::bad_alloc&) {
    RejectSampler(ErrorKind::kLimit,
                  absl::StrCat("no memory for the order of ", dataset_size_, " samples for ",
                               num_replicas_, " replicas; divide the dataset"));
  }
}

int64_t DistributedSampler::unpadded_size() const {
  // Position i of this rank is position rank + i * replicas of the padded order.
  const int64_t own = (dataset_size_ - rank_ + num_replicas_ - 1) / num_replicas_;
  return std::clamp<int64_t>(own, 0, size());
}

}  // namespace dp::distributed
