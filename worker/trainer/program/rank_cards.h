#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"

namespace dp::trainer {

// The card on which a rank computes, and the rank's worker.
struct RankCard {
  std::string worker;
  std::string model;
};

// The cards of all ranks, by rank. Every rank calls this. Cuts names after 95 bytes. Errors: those
// of the group.
absl::StatusOr<std::vector<RankCard>> GatherCards(engine::Group& group, const RankCard& mine);

// Describes which ranks have which card, for example "ranks 0-3 on worker a: NVIDIA H100; rank 4 on
// worker b: NVIDIA A100". Empty if all ranks have the same card. Pure.
std::string DifferentCards(const std::vector<RankCard>& by_rank);

// Rank 0 logs the differences and their effect. Every rank calls this. Errors: those of the group.
absl::Status TellDifferentCards(engine::Group& group, const RankCard& mine);

}  // namespace dp::trainer
