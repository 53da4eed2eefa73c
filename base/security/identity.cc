#include "base/security/identity.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace dp::security {
namespace {

constexpr absl::string_view kPrefix = "spiffe://dp/";

constexpr std::pair<Role, absl::string_view> kRoles[] = {
    {Role::kAdmin, "admin"},
    {Role::kUser, "user"},
    {Role::kViewer, "viewer"},
    {Role::kWorker, "worker"},
    {Role::kCoordinator, "coordinator"},
};

// RFC 3986's unreserved characters.
bool IsUnreserved(char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

std::string Escaped(absl::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (IsUnreserved(c)) {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return escaped;
}

// Errors: InvalidArgument.
absl::StatusOr<std::string> Unescaped(absl::string_view text) {
  std::string name;
  while (!text.empty()) {
    if (text.front() != '%') {
      if (!IsUnreserved(text.front())) break;
      name += text.front();
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < 3 || !absl::ascii_isxdigit(text[1]) || !absl::ascii_isxdigit(text[2])) break;
    name += absl::HexStringToBytes(text.substr(1, 2));
    text.remove_prefix(3);
  }
  if (text.empty() && !name.empty()) return name;
  return absl::InvalidArgumentError("its name is empty or not escaped");
}

absl::Status Wrong(absl::string_view uri, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::CEscape(uri), "\" is no identity: ", why, "; expected ", kPrefix, "ROLE/NAME"));
}

}  // namespace

absl::string_view NameOf(Role role) {
  for (const auto& [each, name] : kRoles) {
    if (each == role) return name;
  }
  return "?";
}

absl::StatusOr<Role> RoleOf(absl::string_view name) {
  for (const auto& [role, each] : kRoles) {
    if (each == name) return role;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", absl::CEscape(name), "' is no role; use admin, user, viewer, worker or coordinator"));
}

std::string ToString(const Identity& identity) {
  return absl::StrCat(NameOf(identity.role), " ", identity.name);
}

absl::string_view KindBefore(absl::string_view name) {
  const absl::string_view kind = name.substr(0, name.find('/'));
  if (kind.size() == name.size()) return "";
  return kind == "person" || RoleOf(kind).ok() ? kind : "";
}

std::string ToUri(const Identity& identity) {
  return absl::StrCat(kPrefix, NameOf(identity.role), "/", Escaped(identity.name));
}

bool IsDpUri(absl::string_view uri) { return absl::StartsWith(uri, kPrefix); }

absl::StatusOr<Identity> ParseUri(absl::string_view uri) {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, kPrefix)) return Wrong(uri, "another scheme or trust domain");
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(rest, absl::MaxSplits('/', 1));
  const absl::StatusOr<Role> role = RoleOf(halves.first);
  if (!role.ok()) return Wrong(uri, "no such role");
  const absl::StatusOr<std::string> unescaped = Unescaped(halves.second);
  if (!unescaped.ok()) return Wrong(uri, unescaped.status().message());
  return Identity{*role, *unescaped};
}

}  // namespace dp::security
