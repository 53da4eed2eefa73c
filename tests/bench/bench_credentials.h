#pragma once

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "client/credentials.h"

namespace dp::bench {

// For a benchmark of the coordinator at `address`: the local administrator's credential, as dpctl
// uses it; with DP_INSECURE in the environment, plain text.
inline client::Credentials CredentialsFor(const std::string& address) {
  const auto found =
      client::FindCredentials(address, {.insecure = std::getenv("DP_INSECURE") != nullptr});
  DP_CHECK(found.ok());
  return *found;
}

}  // namespace dp::bench
