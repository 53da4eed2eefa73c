#include "worker/trainer/program/rank_cards.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/program/log.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

// A worker's name has at most 63 bytes, a model's name at most 95.
using NameBytes = std::array<char, 96>;
struct CardBytes {
  NameBytes worker{}, model{};
};
constexpr size_t kGroupsNamedMax = 16;

void PutName(const std::string& name, NameBytes& bytes) {
  name.copy(bytes.data(), std::min(name.size(), bytes.size() - 1));
}

// Describes neighbouring ranks of one worker with the same model.
std::string GroupText(const std::vector<RankCard>& by_rank, size_t first, size_t end) {
  const std::string ranks =
      end - first == 1 ? absl::StrCat("rank ", first) : absl::StrCat("ranks ", first, "-", end - 1);
  return absl::StrCat(ranks, " on worker ", by_rank[first].worker, ": ", by_rank[first].model);
}

}  // namespace

absl::StatusOr<std::vector<RankCard>> GatherCards(engine::Group& group, const RankCard& mine) {
  CardBytes sent;
  PutName(mine.worker, sent.worker);
  PutName(mine.model, sent.model);
  std::vector<CardBytes> all(static_cast<size_t>(group.size()));
  const auto bytes_of = [](CardBytes* cards, size_t count) {
    return absl::MakeSpan(reinterpret_cast<uint8_t*>(cards), count * sizeof(CardBytes));
  };
  DP_RETURN_IF_ERROR(
      group.on_host().AllGather(bytes_of(&sent, 1), bytes_of(all.data(), all.size()))->Wait());
  std::vector<RankCard> cards;
  for (const CardBytes& card : all) cards.push_back({card.worker.data(), card.model.data()});
  return cards;
}

std::string DifferentCards(const std::vector<RankCard>& by_rank) {
  const auto other = std::find_if(by_rank.begin(), by_rank.end(), [&](const RankCard& card) {
    return card.model != by_rank[0].model;
  });
  if (other == by_rank.end()) return "";
  std::string text;
  size_t groups = 0;
  for (size_t first = 0, end = 0; first < by_rank.size(); first = end) {
    const RankCard& card = by_rank[first];
    while (end < by_rank.size() && by_rank[end].worker == card.worker &&
           by_rank[end].model == card.model) {
      ++end;
    }
    if (groups++ == kGroupsNamedMax) {
      return absl::StrCat(text, "; and ", by_rank.size() - first, " more ranks");
    }
    absl::StrAppend(&text, text.empty() ? "" : "; ", GroupText(by_rank, first, end));
  }
  return text;
}

absl::Status TellDifferentCards(engine::Group& group, const RankCard& mine) {
  DP_ASSIGN_OR_RETURN(const std::vector<RankCard> by_rank, GatherCards(group, mine));
  const std::string different = DifferentCards(by_rank);
  if (different.empty() || group.rank() != 0) return absl::OkStatus();
  Log(Severity::kWarning, "cards_differ",
      {{"cards", different},
       {"effect",
        "every step takes as long as on the slowest, and cards other than that of rank 0 choose "
        "their "
        "algorithms by themselves, so that a first run and a later one may differ in bits"},
       {"remedy",
        "start workers with a label for their cards, as --label card=h100, and ask for it in the "
        "constraints of the job"}});
  return absl::OkStatus();
}

}  // namespace dp::trainer
