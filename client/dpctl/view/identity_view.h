#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/time_text.h"

// How commands show who a person is. Pure.

namespace dp::ctl {

struct IdentityShown {
  std::string role;
  std::string name;
  absl::Time expires_at = absl::InfiniteFuture();  // of the certificate; infinite: there is none
};

// Writes the object `identity` of docs/dpctl.md.
inline void WriteIdentity(const IdentityShown& identity, JsonWriter& json) {
  json.BeginObject();
  json.Field("role", identity.role);
  json.TextOrNull("name", identity.name);
  if (identity.expires_at == absl::InfiniteFuture()) {
    json.NullField("expiresAt");
  } else {
    WriteTime("expiresAt", identity.expires_at, json);
  }
  json.EndObject();
}

}  // namespace dp::ctl
