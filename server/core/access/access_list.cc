#include "server/core/access/access_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::core {
namespace {

using security::Identity;
using security::Role;

bool IsPerson(Role role) {
  return role == Role::kAdmin || role == Role::kUser || role == Role::kViewer;
}

}  // namespace

const Holder* AccessList::Find(const Identity& identity) const {
  const auto& holders = IsPerson(identity.role) ? contents_.people : contents_.workers;
  const auto it = holders.find(identity.name);
  return it == holders.end() ? nullptr : &it->second;
}

absl::StatusOr<Holder*> AccessList::Add(const Identity& identity) {
  auto& holders = IsPerson(identity.role) ? contents_.people : contents_.workers;
  if (holders.size() >= kHoldersMax && !holders.contains(identity.name)) {
    return absl::ResourceExhaustedError(absl::StrCat("the access list already holds ", kHoldersMax,
                                                     " names and has no room for ",
                                                     security::ToString(identity)));
  }
  return &holders[identity.name];
}

absl::StatusOr<bool> AccessList::Grant(const std::string& name, Role role) {
  if (!IsPerson(role)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the role ", security::NameOf(role), " cannot be granted; use admin, user or viewer"));
  }
  DP_ASSIGN_OR_RETURN(Holder* const holder, Add({role, name}));
  return std::exchange(holder->role, role) != role;
}

absl::Status AccessList::Revoke(const Identity& identity, absl::Time made_until) {
  DP_ASSIGN_OR_RETURN(Holder* const holder, Add(identity));
  holder->revoked_at = std::max(holder->revoked_at, made_until);
  holder->role.reset();
  return absl::OkStatus();
}

void AccessList::NoteJoin(const Identity& identity, absl::Time at) {
  auto& holders = IsPerson(identity.role) ? contents_.people : contents_.workers;
  if (WasRevoked(identity)) holders.at(identity.name).joined_at = at;
}

absl::Status AccessList::UseToken(const std::string& id, int uses_max, absl::Time expires_at,
                                  absl::Time at) {
  auto& tokens = contents_.tokens;
  const auto used = tokens.find(id);
  if (uses_max > 0 && used != tokens.end() && used->second.uses >= uses_max) {
    return absl::FailedPreconditionError(absl::StrCat("the token is good for ", uses_max,
                                                      uses_max == 1 ? " use" : " uses",
                                                      ", and was used; ask for another"));
  }
  if (used == tokens.end() && tokens.size() >= kTokensMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kTokensMax, " join tokens are in use; wait until some have expired"));
  }
  UsedToken& token = tokens[id];
  ++token.uses;
  token.expires_at = expires_at;
  for (auto it = tokens.begin(); it != tokens.end();) {
    const bool over = it->second.expires_at <= at && it->first != id;
    it = over ? tokens.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AccessList::FreeName(
    const std::string& host, absl::FunctionRef<bool(const std::string&)> taken) const {
  if (contents_.workers.size() >= kNamesGivenMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kNamesGivenMax, " workers were given names; give this one a --name"));
  }
  std::string name = host;
  for (int n = 2; contents_.workers.contains(name) || taken(name); ++n) {
    if (n > kNamesOfHostMax) {
      return absl::ResourceExhaustedError(absl::StrCat(
          kNamesOfHostMax, " workers of host ", host, " were given names; give this one a --name"));
    }
    name = absl::StrCat(host, "-", n);
  }
  return name;
}

absl::StatusOr<Role> AccessList::RoleOf(const Identity& certified, absl::Time made_at) const {
  const Holder* const holder = Find(certified);
  if (holder == nullptr) return certified.role;
  if (made_at <= holder->revoked_at) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the certificate of ", security::ToString(certified), " was revoked at ",
        absl::FormatTime(holder->revoked_at),
        certified.role == Role::kWorker
            ? "; remove the worker's STATE_DIR/credential and start it with --join and a new "
              "token, or give it a new certificate in --credentials where that is from elsewhere"
            : "; ask an administrator for a new one"));
  }
  return holder->role.value_or(certified.role);
}

absl::Status AccessList::CheckToken(const Identity& identity, absl::Time made_at) const {
  const Holder* const holder = Find(identity);
  if (holder == nullptr || made_at > holder->revoked_at) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the token is void, because the access of ", security::ToString(identity),
                   " was revoked at ", absl::FormatTime(holder->revoked_at),
                   ", after the token was made; ask an administrator for a new one"));
}

bool AccessList::HasRole(const Identity& identity) const {
  const Holder* const holder = Find(identity);
  return holder != nullptr && holder->role.has_value();
}

bool AccessList::WasRevoked(const Identity& identity) const {
  const Holder* const holder = Find(identity);
  return holder != nullptr && holder->revoked_at > absl::InfinitePast();
}

absl::Time AccessList::ValidAfter(const Identity& identity) const {
  const Holder* const holder = Find(identity);
  // Certificates hold whole seconds.
  return holder == nullptr ? absl::InfinitePast() : holder->revoked_at + absl::Seconds(1);
}

}  // namespace dp::core
