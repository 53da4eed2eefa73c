#include "proto/job/job_spec.h"

#include <cstdint>
#include <limits>

#include "absl/strings/numbers.h"
#include "base/node_range.h"

namespace dp {

const std::string& NodesField(const v1::JobSpec& spec) {
  return spec.has_train() ? spec.train().nodes() : spec.command().nodes();
}

const std::string& RanksPerNodeField(const v1::JobSpec& spec) {
  return spec.has_train() ? spec.train().nproc_per_node() : spec.command().nproc_per_node();
}

bool IsElastic(const v1::JobSpec& spec) {
  const auto nodes = ParseNodeRange(NodesField(spec));
  return nodes.ok() && nodes->max > nodes->min;
}

std::optional<RankRange> RanksOf(const v1::JobSpec& spec) {
  const auto nodes = ParseNodeRange(NodesField(spec));
  int each = 0;
  if (!nodes.ok() || !absl::SimpleAtoi(RanksPerNodeField(spec), &each)) return std::nullopt;
  const int64_t max = int64_t{nodes->max} * each;
  if (each < 1 || max > std::numeric_limits<int>::max()) return std::nullopt;
  return RankRange{nodes->min * each, static_cast<int>(max)};
}

int64_t GlobalBatchSize(const v1::JobSpec& spec) {
  const v1::TrainSpec& train = spec.train();
  if (train.batch_size_per_rank() == 0) return train.global_batch_size();
  const std::optional<RankRange> ranks = RanksOf(spec);
  return int64_t{train.batch_size_per_rank()} * (ranks ? ranks->max : spec.ranks());
}

bool MeetsAtStore(const v1::CommandSpec& command) {
  return command.contract() == "torchrun" || command.contract() == "launch";
}

bool PrefersGpus(const v1::TrainSpec& train) {
  return train.precision() == "bf16" || train.precision() == "tf32";
}

bool ComputesOnGpusOnly(const v1::TrainSpec& train) { return train.precision() == "tf32"; }

bool BindsCpusOnly(const v1::TrainSpec& train) {
  return train.backend() == "gloo" || train.backend() == "shm" || train.backend() == "hierarchical";
}

}  // namespace dp
