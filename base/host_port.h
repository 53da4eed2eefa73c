#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp {

// Host and port of an address to connect to.
struct HostPort {
  std::string host;
  std::string port;  // digits, of a number from 1 to 65535
};

// Splits HOST:PORT; an IPv6 address stands in brackets, which are removed. Resolves no names.
// Errors: InvalidArgument shows the text and the expected form.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

}  // namespace dp
