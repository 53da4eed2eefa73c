#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/field_list.h"

namespace dp::security {

// The most that a caller may do. Ranks have no certificate: they prove by tokens which job they are
// of.
enum class Role { kAdmin, kUser, kViewer, kWorker, kCoordinator };

// As users write it: "admin".
absl::string_view NameOf(Role role);
// Errors: InvalidArgument names the text and the roles.
absl::StatusOr<Role> RoleOf(absl::string_view name);

// The subject of a certificate: a user, or a worker or coordinator by its name.
struct Identity {
  Role role = Role::kViewer;
  std::string name;

  using Fields = FieldList<&Identity::role, &Identity::name>;

  bool operator==(const Identity&) const = default;
};

// As in messages: "user ann".
std::string ToString(const Identity& identity);

// The kind of holder that the name of a person seems to begin with: "worker" of "worker/w1", also
// "person". Empty: none. Commands name a worker as worker/NAME, so no person may have such a name.
absl::string_view KindBefore(absl::string_view name);

// The form in which a certificate holds an identity, as a subject alternative name:
// "spiffe://dp/user/ann" (SPIFFE-ID 1.0). The name is escaped with percent signs as URIs have it.
std::string ToUri(const Identity& identity);
// Whether the URI claims to be such a one.
bool IsDpUri(absl::string_view uri);
// Errors: InvalidArgument names the URI and what is wrong with it.
absl::StatusOr<Identity> ParseUri(absl::string_view uri);

}  // namespace dp::security
