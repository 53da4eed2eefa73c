#include "base/host_port.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dp {
namespace {

constexpr int kPortMax = 65'535;

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Names and addresses contain none of these; whole URLs and typing errors do.
bool ValidHost(const std::string& text) {
  const auto odd = [](unsigned char c) {
    return absl::ascii_isspace(c) || c == '/' || c == ',' || c == '[' || c == ']';
  };
  return !text.empty() && std::none_of(text.begin(), text.end(), odd);
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != text.npos) parsed = {text.substr(0, colon), text.substr(colon + 1)};
  const bool bracketed = parsed.host.starts_with('[') && parsed.host.ends_with(']');
  if (bracketed) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  const bool ambiguous = !bracketed && parsed.host.find(':') != std::string::npos;
  if (!ValidHost(parsed.host) || !IsNumber(parsed.port) || ambiguous)
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no HOST:PORT; write it as 10.0.0.1:7070 or [::1]:7070"));
  int port = 0;
  if (!absl::SimpleAtoi(parsed.port, &port) || port < 1 || port > kPortMax)
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' has port ", parsed.port, "; a port is from 1 to ", kPortMax));
  return parsed;
}

}  // namespace dp
