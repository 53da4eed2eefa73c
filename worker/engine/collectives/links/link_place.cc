#include "worker/engine/collectives/links/link_place.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"

namespace dp::engine {
namespace {

absl::Status LinkError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

const sockaddr* AsSocketAddress(absl::string_view address) {
  return reinterpret_cast<const sockaddr*>(address.data());
}

absl::StatusOr<FileDescriptor> OpenLinkSocket(int family) {
  FileDescriptor opened(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!opened.valid()) return LinkError("socket");
  return opened;
}

// Frames are short, and someone waits for each.
void SendAtOnce(const FileDescriptor& socket) {
  const int on = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // no TCP, no delay
}

}  // namespace

std::string Unguessable() {
  return absl::StrCat(absl::Hex(EntropySeed(), absl::kZeroPad16),
                      absl::Hex(EntropySeed(), absl::kZeroPad16));
}

bool SameToken(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string Encode(const LinkPlace& place) {
  return absl::StrCat(absl::BytesToHexString(place.address), " ", place.token);
}

absl::StatusOr<LinkPlace> DecodeLinkPlace(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() != 2 || words[0].size() < 2 * sizeof(sa_family_t) ||
      words[0].size() > 2 * sizeof(sockaddr_storage) || words[1].size() != 32)
    return absl::InternalError(absl::StrCat("'", text, "' is no place of a rank"));
  return LinkPlace{absl::HexStringToBytes(words[0]), words[1]};
}

absl::StatusOr<LinkMembership> JoinLinks(int rank, std::vector<LinkPlace> places,
                                         FileDescriptor listener) {
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return LinkError("eventfd");
  return LinkMembership{rank, std::move(places), std::move(listener), std::move(wake)};
}

std::string LocalLinkAddress(absl::string_view name) {
  sockaddr_un un{};
  DP_CHECK(!name.empty() && name.size() < sizeof(un.sun_path));
  un.sun_family = AF_UNIX;
  // The zero before the name makes it abstract.
  std::memcpy(un.sun_path + 1, name.data(), name.size());
  return {reinterpret_cast<const char*>(&un), offsetof(sockaddr_un, sun_path) + 1 + name.size()};
}

absl::StatusOr<std::string> NumericLinkAddress(const std::string& address) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1)
    return std::string(reinterpret_cast<const char*>(&four), sizeof four);
  if (inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1)
    return std::string(reinterpret_cast<const char*>(&six), sizeof six);
  return absl::InvalidArgumentError(absl::StrCat("'", address, "' is no numeric address"));
}

absl::StatusOr<FileDescriptor> ListenForLinks(absl::string_view address, int callers) {
  DP_ASSIGN_OR_RETURN(FileDescriptor listener, OpenLinkSocket(AsSocketAddress(address)->sa_family));
  if (bind(listener.get(), AsSocketAddress(address), static_cast<socklen_t>(address.size())) != 0)
    return LinkError("bind");
  if (listen(listener.get(), callers) != 0) return LinkError("listen");
  return listener;
}

absl::StatusOr<std::string> AddressOfListener(const FileDescriptor& listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return LinkError("getsockname");
  return std::string(reinterpret_cast<const char*>(&bound), size);
}

absl::StatusOr<FileDescriptor> BeginLink(absl::string_view address) {
  DP_ASSIGN_OR_RETURN(FileDescriptor caller, OpenLinkSocket(AsSocketAddress(address)->sa_family));
  SendAtOnce(caller);
  const auto size = static_cast<socklen_t>(address.size());
  if (connect(caller.get(), AsSocketAddress(address), size) != 0 && errno != EINPROGRESS)
    return LinkError("connect");
  return caller;
}

absl::StatusOr<FileDescriptor> AcceptLink(const FileDescriptor& listener) {
  FileDescriptor caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!caller.valid())
    return errno == EAGAIN ? absl::NotFoundError("nobody calls") : LinkError("accept4");
  return caller;
}

}  // namespace dp::engine
