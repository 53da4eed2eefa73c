#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/coordinator.h"

namespace dp::core {
namespace {

using security::Role;

// The event of a join: its kind, and what stands between who has joined and the token's id.
constexpr char kJoined[] = "joined";
constexpr char kWithToken[] = ", with token ";

}  // namespace

absl::StatusOr<Reply> Coordinator::On(const GrantRole& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(const bool changed, state_.access.Grant(command.name, command.role));
  if (!changed) return Reply();
  Tell("granted", security::ToString({command.role, command.name}));
  Touch({Topic::Kind::kAccess});
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const RevokeAccess& command, absl::Time) {
  const Role role = command.worker ? Role::kWorker : Role::kUser;
  const security::Identity identity{role, command.name};
  const bool known = HasHeardOf(identity);
  DP_RETURN_IF_ERROR(state_.access.Revoke(identity, command.made_until));
  Tell("revoked", security::ToString(identity));
  Touch({Topic::Kind::kAccess});
  return Reply(known);
}

bool Coordinator::HasHeardOf(const security::Identity& identity) const {
  const std::string& name = identity.name;
  const auto joined_as = [&](Role role) {
    const std::string who = security::ToString({role, name});
    return absl::c_any_of(state_.events.events(), [&](const auto& numbered) {
      const Event& event = numbered.second;
      return event.kind == kJoined &&
             (event.text == who || absl::StartsWith(event.text, who + kWithToken));
    });
  };
  if (identity.role == Role::kWorker) {
    return state_.access.contents().workers.contains(name) || state_.workers.IdOf(name).ok() ||
           joined_as(Role::kWorker);
  }
  return state_.access.contents().people.contains(name) ||
         absl::c_any_of(jobs(), [&](const Job* job) { return job->owner == name; }) ||
         joined_as(Role::kAdmin) || joined_as(Role::kUser) || joined_as(Role::kViewer);
}

absl::StatusOr<Reply> Coordinator::On(const UseToken& command, absl::Time at) {
  security::Identity identity = command.identity;
  // A token that was made for someone whose access ended since is void, as their certificates are.
  if (!identity.name.empty()) {
    DP_RETURN_IF_ERROR(state_.access.CheckToken(identity, command.made_at));
  }
  if (identity.name.empty()) {
    const auto taken = [this](const std::string& name) {
      const auto id = state_.workers.IdOf(name);
      return id.ok() && worker(*id)->ready();
    };
    DP_ASSIGN_OR_RETURN(identity.name, state_.access.FreeName(command.host, taken));
  }
  if (const auto id = state_.workers.IdOf(identity.name);
      identity.role == Role::kWorker && id.ok() && worker(*id)->ready() && !worker(*id)->leaving) {
    return NameTaken(*worker(*id));
  }
  if (!command.id.empty()) {
    DP_RETURN_IF_ERROR(
        state_.access.UseToken(command.id, command.uses_max, command.expires_at, at));
  }
  if (command.identity.name.empty()) state_.access.NoteName(identity.name);
  state_.access.NoteJoin(identity, at);
  const std::string how =
      command.id.empty() ? "" : absl::StrCat(kWithToken, command.id.substr(0, 8));
  Tell(kJoined, security::ToString(identity) + how);
  return Reply(identity.name);
}

}  // namespace dp::core
