#include "client/tls_handshake.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/host_port.h"
#include "base/status.h"
#include "client/absence.h"

namespace dp::client {
namespace {

using AddressesPtr = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::Status NoAnswer(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("coordinator at ", address, ": ", why));
}

absl::Status NothingConnected(const std::string& address, absl::string_view why) {
  return WithAbsence(Absence::kNothingConnected, NoAnswer(address, why));
}

int MillisecondsUntil(absl::Time deadline) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::max(deadline - absl::Now(), absl::ZeroDuration())));
}

}  // namespace

bool AwaitReady(int fd, short events, absl::Time deadline) {  // NOLINT: poll's type
  pollfd wait{.fd = fd, .events = events, .revents = 0};
  return poll(&wait, 1, MillisecondsUntil(deadline)) == 1;
}

SslContextPtr Tls13Context() {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  return context;
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address, absl::Time deadline) {
  DP_ASSIGN_OR_RETURN(const HostPort parts, ParseHostPort(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (resolved != 0) return NothingConnected(address, gai_strerror(resolved));
  const AddressesPtr owned(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    FileDescriptor fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = errno;
    if (!fd.valid()) continue;
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    error = errno;
    if (error != EINPROGRESS) continue;
    if (!AwaitReady(fd.get(), POLLOUT, deadline)) {
      error = ETIMEDOUT;
      continue;
    }
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
  }
  return NothingConnected(address, std::generic_category().message(error));
}

absl::Status Handshake(SSL* ssl, int fd, const std::string& address, absl::Time deadline) {
  for (int result = SSL_connect(ssl); result != 1; result = SSL_connect(ssl)) {
    const int wants = SSL_get_error(ssl, result);
    const bool waits = wants == SSL_ERROR_WANT_READ || wants == SSL_ERROR_WANT_WRITE;
    if (!waits) {
      return NoAnswer(address, security::InvalidBecause("it does not answer with TLS").message());
    }
    if (!AwaitReady(fd, wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) {
      return NoAnswer(address, "it did not answer in time");
    }
  }
  return absl::OkStatus();
}

}  // namespace dp::client
