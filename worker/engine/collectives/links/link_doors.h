#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "worker/engine/collectives/links/link_place.h"

namespace dp::engine {

// Where a rank takes links before it knows its peers: at a socket of its host and, if it has an
// address, over TCP. Ranks that are all on one host then keep the first, others the second.
class LinkDoors {
 public:
  // `host` is the same on ranks whose hosts' own sockets reach each other; empty: unknown.
  // `address` is in digits, or empty. A door that the system does not open shows in Join.
  LinkDoors(std::string host, const std::string& address, int callers);

  // One line for the peers.
  std::string Card() const;
  // `cards` are those of all ranks, in rank order. Call it once. Errors: FailedPrecondition names a
  // rank that has no address and needs one; Internal a text is no card; Unavailable a door could
  // not be opened.
  absl::StatusOr<LinkMembership> Join(int rank, const std::vector<std::string>& cards);

 private:
  struct Door {
    absl::StatusOr<FileDescriptor> listener;
    LinkPlace place;
  };
  static Door OpenDoor(const absl::StatusOr<std::string>& address, int callers);

  const std::string host_;
  Door local_;
  Door tcp_;
};

}  // namespace dp::engine
