#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/dpctl/context.h"

namespace dp::ctl {

// A join token, as the coordinator has made it for somebody.
struct JoinToken {
  std::string role;
  std::string name;   // may be empty for a worker
  std::string token;  // empty: none leads to the coordinator, by Grant
  absl::Time expires_at;
};

// Prints the token in the format: the command line that uses the token, the object `token` of
// docs/dpctl.md, or the token alone. Notes for people go to standard error.
// For a user, these name the workers whose ranks could read an administrator's credential.
void PrintJoinToken(const JoinToken& token, Context& context);

}  // namespace dp::ctl
