#include "worker/engine/collectives/nccl/attendance.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::engine {

std::string ToText(const Presence& presence) {
  return absl::StrCat(presence.arrived, " ", presence.beat, " ", static_cast<int>(presence.over));
}

absl::optional<Presence> PresenceFromText(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  Presence presence;
  int over = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &presence.arrived) ||
      !absl::SimpleAtoi(words[1], &presence.beat) || !absl::SimpleAtoi(words[2], &over) ||
      over < 0 || over > static_cast<int>(Over::kOutOfTime))
    return absl::nullopt;
  presence.over = static_cast<Over>(over);
  return presence;
}

Attendance::Attendance(int rank, int size, absl::Duration patience)
    : rank_(rank), patience_(patience), peers_(size) {}

void Attendance::Listen(absl::Time now) { since_ = now; }

void Attendance::Hear(int rank, const Presence& presence, absl::Time now) {
  Peer& peer = peers_[rank];
  const bool first = peer.presence == Presence();
  // The first beat read may be an old one, unless this rank was listening already.
  if (presence.beat != peer.presence.beat && (!first || now > since_)) peer.changed = now;
  peer.presence = presence;
}

std::vector<int> Attendance::Silent(absl::Time now) const {
  std::vector<int> silent;
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r)
    if (IsSilent(r, now)) silent.push_back(r);
  return silent;
}

std::vector<int> Attendance::Missing(int64_t number, Over mine, absl::Time now) const {
  const bool time_ran_out =
      mine == Over::kOutOfTime || std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
        return peer.presence.over == Over::kOutOfTime;
      });
  std::vector<int> missing;
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (r == rank_ || (over(r) && !time_ran_out)) continue;
    if (IsSilent(r, now) || peers_[r].presence.arrived < number) missing.push_back(r);
  }
  return missing;
}

bool Attendance::Complete(int64_t number, absl::Time now) const {
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (r == rank_ || over(r) || IsSilent(r, now)) continue;
    if (!lives(r) || peers_[r].presence.arrived >= number) return false;
  }
  return true;
}

bool Attendance::IsSilent(int rank, absl::Time now) const {
  if (rank == rank_ || over(rank)) return false;
  return now - std::max(since_, peers_[rank].changed) >= patience_;
}

}  // namespace dp::engine
