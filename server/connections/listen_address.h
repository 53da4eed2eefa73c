#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace dp::server {

// Where the coordinator listens: host:port, or [host]:port for IPv6. Port 0 lets the system choose.
struct ListenAddress {
  std::string host;
  int port = 0;

  // Errors: InvalidArgument the text is not host:port, or the port is out of range.
  static absl::StatusOr<ListenAddress> Parse(absl::string_view text);

  // Whether only this machine can reach the address, judged by the text alone.
  bool loopback() const;
  std::string ToString() const;
  // A socket that listens there, and does not block. 0.0.0.0 stands for IPv6 too where the host has
  // it. `flag` gave the address.
  // Errors: Unavailable the name does not resolve, or this host does not have the address, or it is
  // taken. Each may change while a host starts. The message names address and remedy.
  absl::StatusOr<FileDescriptor> Listen(const char* flag) const;
  // Listens for a moment. Errors: as above.
  absl::Status CheckFree(const char* flag) const { return Listen(flag).status(); }
};

}  // namespace dp::server
