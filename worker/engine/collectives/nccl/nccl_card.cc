#include "worker/engine/collectives/nccl/nccl_card.h"

#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/shm/host_card.h"

namespace dp::engine {
namespace {

// The first characters of a boot id, which is random, tell hosts apart.
constexpr size_t kHostLength = 18;

absl::string_view ValueOf(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string OneLine(absl::string_view text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

}  // namespace

std::string Encode(const NcclCard& card) {
  return absl::StrCat(OneLine(card.host), "\n", OneLine(card.gpu), "\n", card.device, "\n",
                      OneLine(card.links), "\n", card.id);
}

absl::StatusOr<NcclCard> DecodeNcclCard(absl::string_view text) {
  const std::vector<std::string> fields = absl::StrSplit(text, absl::MaxSplits('\n', 4));
  NcclCard card;
  if (fields.size() != 5 || !absl::SimpleAtoi(fields[2], &card.device))
    return absl::InternalError("a rank's card for NCCL cannot be read; run one release of dp");
  card.host = fields[0];
  card.gpu = fields[1];
  card.links = fields[3];
  card.id = fields[4];
  return card;
}

absl::StatusOr<NcclCard> CardOfThisRank(NcclApi& api, int device) {
  NcclCard card{.host = "", .gpu = "", .device = device, .links = "", .id = ""};
  const absl::string_view shares = ValueOf("NCCL_MULTI_RANK_GPU_ENABLE");
  if (!shares.empty() && shares != "0") return card;
  DP_ASSIGN_OR_RETURN(card.gpu, api.PlaceOf(device));
  const absl::string_view named = ValueOf("NCCL_HOSTID");
  const HostCard host = ThisHost();
  if (!named.empty()) {
    card.host = std::string(named);
  } else if (host.why_not.empty()) {
    card.host = host.kernel.substr(0, kHostLength);
  }
  return card;
}

absl::Status CheckAGpuEach(const std::vector<NcclCard>& cards) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> ranks_on;
  for (int rank = 0; rank < static_cast<int>(cards.size()); ++rank)
    if (!cards[rank].host.empty()) ranks_on[{cards[rank].host, cards[rank].gpu}].push_back(rank);
  const std::vector<int>* first = nullptr;
  for (const auto& [gpu, ranks] : ranks_on)
    if (ranks.size() > 1 && (first == nullptr || ranks[0] < (*first)[0])) first = &ranks;
  if (first == nullptr) return absl::OkStatus();
  const std::string devices = absl::StrJoin(*first, ", ", [&](std::string* text, int rank) {
    absl::StrAppend(text, "device ", cards[rank].device, " of rank ", rank);
  });
  return absl::FailedPreconditionError(absl::StrCat(RankNames(*first), " share the GPU ",
                                                    cards[(*first)[0]].gpu, " of one host (",
                                                    devices, "); give each rank a GPU of its own"));
}

}  // namespace dp::engine
