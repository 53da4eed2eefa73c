#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::security {

// The most that a caller may do. Ranks have no certificate: they prove by tokens which job they are
// of.
enum class Role { kAdmin, kUser, kViewer, kWorker, kCoordinator };

// The subject of a certificate: a user, or a worker or coordinator by its name.
struct Identity {
  Role role = Role::kViewer;
  std::string name;

  bool operator==(const Identity&) const = default;
};

// As in messages: "user ann".
std::string ToString(const Identity& identity);

// The form in which a certificate holds an identity, as a subject alternative name:
// "spiffe://dp/user/ann" (SPIFFE-ID 1.0). The name is escaped with percent signs as URIs have it.
std::string ToUri(const Identity& identity);
// Errors: InvalidArgument names the URI and what is wrong with it.
absl::StatusOr<Identity> ParseUri(absl::string_view uri);

}  // namespace dp::security
