#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::engine {

// A rank's place, as its peers see it before they join a communicator. Every rank reads the cards
// of all, so a card is short.
struct NcclCard {
  std::string host;   // differs between hosts; empty if the rank may share its GPU
  std::string gpu;    // NcclApi::PlaceOf
  int device = 0;     // the rank's own number for it
  std::string links;  // where it takes links (LinkDoors), or empty
  std::string id;     // the unique id that the rank draws, or empty
};

std::string Encode(const NcclCard& card);
// Errors: Internal the text is not a card.
absl::StatusOr<NcclCard> DecodeNcclCard(absl::string_view text);

// The card of this process, without links and id. NCCL's variables count as they do for NCCL
// itself: NCCL_HOSTID makes a host of its own, and with NCCL_MULTI_RANK_GPU_ENABLE ranks may share
// a GPU. Errors: those of PlaceOf.
absl::StatusOr<NcclCard> CardOfThisRank(NcclApi& api, int device);

// Whether each rank has a GPU of its own. `cards` are in rank order. The same answer on every rank.
// Errors: FailedPrecondition names the ranks of the first GPU that several share. Pure.
absl::Status CheckAGpuEach(const std::vector<NcclCard>& cards);

}  // namespace dp::engine
