#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp {

// The two halves of an address to connect to.
struct HostPort {
  std::string host;
  std::string port;  // digits, of a number from 1 to 65535
};

// Takes HOST:PORT apart; an IPv6 address stands in brackets, which are left out. Looks nothing up.
// Errors: InvalidArgument with the text and how it is written.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

}  // namespace dp
