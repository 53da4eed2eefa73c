#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dp::engine {

// A list of ranks as a text to another rank.
std::string EncodeRanks(absl::Span<const int> ranks);
// Errors: Internal the text lists no ranks among `size`.
absl::StatusOr<std::vector<int>> DecodeRanks(absl::string_view text, int size);

// Which ranks are the cause of a failure. A rank that fails because others are gone tells its peers
// so before it ends itself. A peer that sees its end then names those others. Pure. Not
// thread-safe.
class Farewells {
 public:
  // `peer` fails because these are gone. The first farewell of a peer counts.
  void Heard(int peer, std::vector<int> gone) { gone_.emplace(peer, std::move(gone)); }

  // The ranks that rank `self` names where the connections to `ended` have ended: those that said
  // no farewell, and those that farewells name. In ascending order.
  std::vector<int> Culprits(absl::Span<const int> ended, int self) const;

 private:
  std::map<int, std::vector<int>> gone_;  // by the peer that said so
};

}  // namespace dp::engine
