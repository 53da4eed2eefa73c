#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

// Where ranks take links from their peers. Sockets never block. Errors: Unavailable, with the
// system's words.

namespace dp::engine {

// 128 bits that nobody else can guess, as 32 digits.
std::string Unguessable();
// Takes the same time wherever the texts differ.
bool SameToken(absl::string_view a, absl::string_view b);

struct LinkPlace {
  std::string address;  // the bytes of a socket's address
  std::string token;    // a result of Unguessable; each caller presents it
};

// As one text for a store, and back. Errors: Internal the text is no place.
std::string Encode(const LinkPlace& place);
absl::StatusOr<LinkPlace> DecodeLinkPlace(absl::string_view text);

// The means of a rank to link with its peers.
struct LinkMembership {
  int rank = 0;
  std::vector<LinkPlace> places;  // by rank
  FileDescriptor listener;        // at places[rank]
  FileDescriptor wake;            // an eventfd
};
absl::StatusOr<LinkMembership> JoinLinks(int rank, std::vector<LinkPlace> places,
                                         FileDescriptor listener);

// An abstract name of the host's Unix sockets, as an address.
std::string LocalLinkAddress(absl::string_view name);
// A numeric IPv4 or IPv6 address and any free port. Errors: InvalidArgument it is none.
absl::StatusOr<std::string> NumericLinkAddress(const std::string& address);
// Listens at `address`, whose port may be 0, for `callers` that nobody has accepted yet.
absl::StatusOr<FileDescriptor> ListenForLinks(absl::string_view address, int callers);
// The address at which a socket listens.
absl::StatusOr<std::string> AddressOfListener(const FileDescriptor& listener);
// Begins to connect; the socket can be written once it is connected.
absl::StatusOr<FileDescriptor> BeginLink(absl::string_view address);
// The next caller. Errors: NotFound there is none.
absl::StatusOr<FileDescriptor> AcceptLink(const FileDescriptor& listener);

}  // namespace dp::engine
