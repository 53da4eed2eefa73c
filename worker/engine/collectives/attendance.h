#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

// Who is there while an operation does not end, from what ranks say of themselves. Pure.

namespace dp::engine {

// Whether a rank lives and says nothing more.
enum class Over {
  kNot,
  kGaveUp,     // after an error, or because it was told to; or it has left
  kOutOfTime,  // at a deadline: it knew that others were missing
};

// What a rank says; one value of a store.
struct Presence {
  int64_t arrived = 0;  // how many operations it has come to
  int64_t beat = 0;     // grows for as long as it says anything
  Over over = Over::kNot;

  bool operator==(const Presence&) const = default;
};

// "<arrived> <beat> <over>", all in digits.
std::string ToText(const Presence& presence);
absl::optional<Presence> PresenceFromText(absl::string_view text);

// What one rank knows of its peers. Peers say something now and then once they suspect that
// somebody is missing; whoever is not heard for `patience` is silent: dead, or stopped. A beat
// counts as heard when it is seen to change, since the first one seen may be of long ago.
class Attendance {
 public:
  Attendance(int rank, int size, absl::Duration patience);

  // Listening begins (again): who is silent is judged from here on.
  void Listen(absl::Time now);
  void Hear(int rank, const Presence& presence, absl::Time now);

  // Those of the peers that have not been heard for the patience.
  std::vector<int> Silent(absl::Time now) const;
  // Those that are silent, or that live and have not come to operation `number` (from 1). One that
  // has given up counts only where somebody, who may be this rank (`mine`), has run out of time: it
  // gave up because of that.
  std::vector<int> Missing(int64_t number, Over mine, absl::Time now) const;
  // Whether nothing more can be learned of who let operation `number` down: every peer has given
  // up, is silent, or lives and has not come to it. Of one that had come it is not known yet
  // whether it died then.
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
  std::vector<Peer> peers_;  // by rank; this rank's own is not used
};

}  // namespace dp::engine
