#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"

namespace dp::trainer {

// On which card a rank computes, and at which worker.
struct RankCard {
  std::string worker;
  std::string model;
};

// Those of all ranks, by rank; every rank calls it. Of longer names the beginning. Errors: those of
// the group.
absl::StatusOr<std::vector<RankCard>> GatherCards(engine::Group& group, const RankCard& mine);

// Where not all ranks have the same card: who has which, as "ranks 0-3 on worker a: NVIDIA H100;
// rank 4 on worker b: NVIDIA A100". Else empty. Pure.
std::string DifferentCards(const std::vector<RankCard>& by_rank);

// Rank 0 says in its log what is different, and what that means.
absl::Status TellDifferentCards(engine::Group& group, const RankCard& mine);

}  // namespace dp::trainer
