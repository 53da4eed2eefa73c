#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

// Which ranks are present while an operation is stuck, judged by what the ranks report. Pure.

namespace dp::engine {

// Whether a living rank has stopped reporting for good.
enum class Over {
  kNot,
  kGaveUp,     // after an error or an abort, or because it has left
  kOutOfTime,  // at a deadline: it knew that others were missing
};

// A rank's report; one value in the store.
struct Presence {
  int64_t arrived = 0;  // number of operations it has reached
  int64_t beat = 0;     // grows with every report
  Over over = Over::kNot;

  bool operator==(const Presence&) const = default;
};

// "<arrived> <beat> <over>", all in digits.
std::string ToText(const Presence& presence);
absl::optional<Presence> PresenceFromText(absl::string_view text);

// One rank's knowledge of its peers. Peers report now and then once they suspect that a rank is
// missing. A peer that is not heard for `patience` is silent: dead or stopped. A beat counts as
// heard only when it changes, since the first beat read may be an old one.
class Attendance {
 public:
  Attendance(int rank, int size, absl::Duration patience);

  // Starts listening, or starts anew: silence is measured from `now`.
  void Listen(absl::Time now);
  void Hear(int rank, const Presence& presence, absl::Time now);

  // The peers that have not been heard for the patience.
  std::vector<int> Silent(absl::Time now) const;
  // The peers that are silent, or that live and have not reached operation `number` (from 1). A
  // peer that gave up counts only if a rank ran out of time, this rank (`mine`) included: that made
  // the peer give up.
  std::vector<int> Missing(int64_t number, Over mine, absl::Time now) const;
  // Whether it is settled who held up operation `number`: every peer has given up, is silent, or
  // lives and has not reached it. A peer that reached it leaves the question open until it is
  // silent: it may have died since its last beat.
  bool Complete(int64_t number, absl::Time now) const;
  bool over(int rank) const { return peers_[rank].presence.over != Over::kNot; }

 private:
  struct Peer {
    Presence presence;
    absl::Time changed = absl::InfinitePast();
  };

  bool lives(int rank) const { return peers_[rank].changed > since_; }
  bool IsSilent(int rank, absl::Time now) const;

  const int rank_;
  const absl::Duration patience_;
  absl::Time since_ = absl::InfiniteFuture();
  std::vector<Peer> peers_;  // by rank; this rank's own entry is unused
};

}  // namespace dp::engine
