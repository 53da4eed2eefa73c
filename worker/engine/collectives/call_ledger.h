#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/collective.h"

namespace dp::engine {

// A rank's collective as a note to another rank.
struct CallNote {
  bool operator==(const CallNote&) const = default;

  uint64_t number = 0;  // counts the collectives of the rank, from 1
  bool leaves = false;  // it leaves the group instead
  CallShape shape;
  PieceSizes pieces;  // of an exchange
};
CallNote NoteOf(uint64_t number, const Collective& call);

std::string Encode(absl::Span<const CallNote> notes);
// Errors: Internal the text is not from a rank among `size`.
absl::StatusOr<std::vector<CallNote>> DecodeCallNotes(absl::string_view text, int size);

// The latest calls of a rank, and on rank 0 those of the peers that have been waiting for a while.
// From these rank 0 finds out whether ranks call different collectives. Calls differ only if they
// have the same number. A rank that is late has sent no notes, so nobody accuses it. Pure. Not
// thread-safe.
class CallLedger {
 public:
  explicit CallLedger(int size) : size_(size) {}

  // This rank calls this. Numbers ascend.
  void Called(CallNote note);
  // This rank's calls, for rank 0. Some are over: a rank gets ahead of its peers by operations
  // that need nothing from them.
  std::string Notes() const;

  // On rank 0: these are the latest calls of a peer.
  void Heard(int rank, std::vector<CallNote> notes);
  // On rank 0. Errors: InvalidArgument names two ranks and states how their calls differ;
  // Unavailable the ranks that have left while others call.
  absl::Status Check() const;

 private:
  absl::Status CheckNumber(uint64_t number) const;

  const int size_;
  std::vector<CallNote> own_;  // the latest last
  std::map<int, std::vector<CallNote>> heard_;
};

}  // namespace dp::engine
