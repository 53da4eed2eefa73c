#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/security/openssl.h"

// A connection of its own to a coordinator, without gRPC: for what gRPC does not tell about a
// handshake. Each function blocks until its deadline at the latest.

namespace dp::client {

using SslContextPtr = std::unique_ptr<SSL_CTX, security::Free<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, security::Free<SSL_free>>;

// For a client that speaks HTTP/2 over TLS 1.3, as the coordinator does.
SslContextPtr Tls13Context();

// A socket that does not block. Errors: InvalidArgument the address; Unavailable, with the mark of
// absence.h, nobody accepts connections there.
absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address, absl::Time deadline);

// Whether the socket is ready for these events of poll before the deadline.
bool AwaitReady(int fd, short events, absl::Time deadline);  // NOLINT: poll's type

// Errors: Unavailable names the address; nobody answers in time, or not with TLS.
absl::Status Handshake(SSL* ssl, int fd, const std::string& address, absl::Time deadline);

}  // namespace dp::client
