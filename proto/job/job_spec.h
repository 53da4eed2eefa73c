#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dp/v1/job_spec.pb.h"

// Reads from a job's spec what dpctl, coordinator and daemons all ask. Pure.

namespace dp {

// `nodes` and `nprocPerNode` of the job's program; empty if the placement decides.
const std::string& NodesField(const v1::JobSpec& spec);
const std::string& RanksPerNodeField(const v1::JobSpec& spec);

// Whether generations of the job may have different numbers of workers.
bool IsElastic(const v1::JobSpec& spec);

// The fewest and most ranks that both fields allow. None while a field is not a number ("gpu",
// "cpu", "auto") or is invalid.
struct RankRange {
  int min = 1;
  int max = 1;
};
std::optional<RankRange> RanksOf(const v1::JobSpec& spec);

// The samples of a training's step over all ranks: train.globalBatchSize, or train.batchSizePerRank
// times the ranks. 0 if the job has neither.
int64_t GlobalBatchSize(const v1::JobSpec& spec);

// Whether the command's contract makes ranks meet at a TCPStore, as torchrun's ranks do.
bool MeetsAtStore(const v1::CommandSpec& command);

// Whether the training's precision is less than float32, so that device "auto" means GPUs.
bool PrefersGpus(const v1::TrainSpec& train);

// Whether only GPUs compute in the training's precision.
bool ComputesOnGpusOnly(const v1::TrainSpec& train);

// Whether the training's backend reaches only memory of CPUs.
bool BindsCpusOnly(const v1::TrainSpec& train);

}  // namespace dp
