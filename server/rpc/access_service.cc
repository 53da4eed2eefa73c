#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/name.h"
#include "base/security/certificate.h"
#include "base/security/visible_text.h"
#include "base/status.h"
#include "dp/v1/access.grpc.pb.h"
#include "server/access/authority.h"
#include "server/access/gate.h"
#include "server/convert/convert_call.h"
#include "server/core/job.h"
#include "server/rpc/call.h"
#include "server/rpc/services.h"

namespace dp::server {
namespace {

using security::Identity;
using security::Role;

// Longer than any name of a directory service.
constexpr size_t kNameBytesMax = 256;

// Stands for the RPC where a connection was shut down. dpctl tells refusals from events by the RPC.
constexpr char kConnection[] = "(connection)";

bool IsPerson(Role role) {
  return role == Role::kAdmin || role == Role::kUser || role == Role::kViewer;
}

// A name that a caller made up, on one line of an error.
std::string Shown(const std::string& name) { return absl::Utf8SafeCEscape(name); }

// Errors: InvalidArgument the name could be mistaken for one of another kind.
absl::Status CheckKind(const std::string& name) {
  const absl::string_view kind = security::KindBefore(name);
  if (kind.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", Shown(name), "' is no name of a person: it begins with ", kind, "/; use '",
                   Shown(name.substr(kind.size() + 1)), "'"));
}

// Errors: InvalidArgument.
absl::Status CheckName(const Identity& identity) {
  const std::string& name = identity.name;
  if (identity.role == Role::kWorker) {
    if (IsWorkerName(name)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", Shown(name), "' is no worker name; use ", kWorkerNameRule));
  }
  DP_RETURN_IF_ERROR(CheckKind(name));
  if (name == core::kLegacyOwner) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' stands for jobs without an owner; give the person another name"));
  }
  if (!name.empty() && name.size() <= kNameBytesMax && security::IsVisibleText(name))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CEscape(name), "' is no name of a person; use 1 to ", kNameBytesMax,
                   " bytes of ", security::kVisibleTextRule));
}

// Errors: InvalidArgument.
absl::StatusOr<absl::Duration> ValidFor(bool given, const google::protobuf::Duration& duration) {
  if (!given) return Authority::kTokenDefault;
  const absl::Duration valid = FromProto(duration);
  if (valid > absl::ZeroDuration() && valid <= Authority::kTokenMax) return valid;
  return absl::InvalidArgumentError(
      absl::StrCat("a token cannot be valid for ", absl::FormatDuration(valid),
                   "; give more than 0 and at most ", absl::FormatDuration(Authority::kTokenMax)));
}

void FillCertificate(const IssuedCertificate& issued, v1::IssuedCertificate* proto) {
  proto->set_chain(issued.chain);
  proto->set_authorities(issued.authorities);
}

// A certificate must be younger than the last revocation.
absl::Time MadeAt(const Identity& identity, const View& view) {
  const absl::Time earliest = view.coordinator.state().access.ValidAfter(identity);
  return std::max(absl::Now(), earliest + security::CertificateAuthority::kClockSkew);
}

// A rank's is its place: the role says that it is a rank.
std::string NameOfCaller(const Caller& caller) {
  if (caller.kind != Caller::Kind::kRank) return caller.identity.name;
  const RankKey& key = caller.rank.rank;
  return absl::StrCat(key.rank, " of job ", key.job.ToString());
}

// Serves proto/dp/v1/access.proto through the driver. Thread-safe.
class AccessService final : public v1::Access::CallbackService {
 public:
  // `own_certificate`: as in TlsOptions.
  AccessService(Gate& gate, const Authority* authority, bool own_certificate)
      : gate_(gate), authority_(authority), own_certificate_(own_certificate) {}

  grpc::ServerUnaryReactor* Enroll(grpc::CallbackServerContext* context,
                                   const v1::EnrollRequest* request,
                                   v1::EnrollResponse* response) override {
    // Whoever joins a worker without a token must be one who may make tokens.
    const Admission admission = gate_.Admit(
        *context, request->token().empty() ? Rpc::kAccessCreateToken : Rpc::kAccessEnroll);
    const auto use = Joining(*request);
    if (!use.ok()) {
      return Ask(admission, context, [=](const View&) { return admission.Refused(use.status()); });
    }
    return Apply(
        admission.NotesRejections(), context, *use,
        [=, this](const core::Outcome& outcome, const View& view) {
          const Identity identity{use->identity.role, std::get<std::string>(outcome.reply)};
          return Issue(identity, request->signing_request(), view, response);
        });
  }
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kAccessRenew);
    const bool ours = IsOurs(CertificateOf(*context));
    return Ask(admission, context, [=, this](const View& view) -> absl::Status {
      const Caller& caller = admission.caller();
      if (caller.kind != Caller::Kind::kCertificate || !ours) {
        return absl::FailedPreconditionError(absl::StrCat(
            ToString(caller), " has no certificate of this coordinator, so it cannot renew one"));
      }
      return Issue(caller.identity, request->signing_request(), view, response);
    });
  }
  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context, const v1::WhoAmIRequest*,
                                   v1::WhoAmIResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kAccessWhoAmI);
    return Ask(admission, context, [=, this](const View& view) {
      const Caller& caller = admission.caller();
      SetHeader(view, response);
      response->set_role(admission.role(view));
      response->set_name(NameOfCaller(caller));
      if (caller.expires_at < absl::InfiniteFuture()) {
        *response->mutable_expires_at() = ToProto(caller.expires_at);
      }
      response->set_takes_secrets(gate_.sealing_key().has_value() &&
                                  caller.kind != Caller::Kind::kInsecure);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kAccessCreateToken);
    return Ask(admission, context, [=, this](const View& view) -> absl::Status {
      DP_ASSIGN_OR_RETURN(const Role role, security::RoleOf(request->role()));
      const Identity identity{role, request->name()};
      if (role == Role::kCoordinator) {
        return absl::InvalidArgumentError("a coordinator needs no token; it makes its certificate");
      }
      if (IsPerson(role) || !identity.name.empty()) DP_RETURN_IF_ERROR(CheckName(identity));
      if (IsPerson(role)) DP_RETURN_IF_ERROR(CheckNotLocalAdmin(identity));
      if (request->uses() < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("uses is ", request->uses(), "; give 0 for any number, or more"));
      }
      DP_ASSIGN_OR_RETURN(const absl::Duration valid,
                          ValidFor(request->has_valid_for(), request->valid_for()));
      const int uses = IsPerson(role) ? std::max(request->uses(), 1) : request->uses();
      return MakeToken(identity, uses, valid, view, response);
    });
  }
  grpc::ServerUnaryReactor* Grant(grpc::CallbackServerContext* context,
                                  const v1::GrantRequest* request,
                                  v1::GrantResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kAccessGrant);
    const auto role = security::RoleOf(request->role());
    if (!role.ok()) return Refuse(admission, context, role.status());
    const Identity identity{*role, request->name()};
    const auto valid = ValidFor(request->has_valid_for(), request->valid_for());
    const absl::Status checked = IsPerson(*role) ? CheckName(identity) : absl::OkStatus();
    if (!checked.ok()) return Refuse(admission, context, checked);
    if (!valid.ok()) return Refuse(admission, context, valid.status());
    const absl::Status left = CheckAdminsLeft(identity, admission.caller());
    if (!left.ok()) return Refuse(admission, context, left);
    return Apply(admission, context, core::GrantRole{identity.name, *role},
                 [=, this](const core::Outcome&, const View& view) {
                   if (!own_certificate_) {
                     SetHeader(view, response);
                     return absl::OkStatus();
                   }
                   return MakeToken(identity, /*uses=*/1, *valid, view, response);
                 });
  }
  grpc::ServerUnaryReactor* Revoke(grpc::CallbackServerContext* context,
                                   const v1::RevokeRequest* request,
                                   v1::RevokeResponse* response) override {
    const Admission admission = gate_.Admit(*context, Rpc::kAccessRevoke);
    if (request->name().empty()) {
      return Refuse(admission, context,
                    absl::InvalidArgumentError("name is empty; say whose access ends"));
    }
    if (!request->worker()) {
      // Nobody's certificate counts under another name, so it would end nobody's access.
      const absl::Status checked = CheckName({Role::kUser, request->name()});
      if (!checked.ok()) return Refuse(admission, context, checked);
    }
    // The administrator of the coordinator's own credential has joined by no token.
    const bool is_local_admin = request->name() == kLocalAdmin && !request->worker();
    return Apply(admission, context,
                 core::RevokeAccess{request->name(), request->worker(), absl::Now()},
                 [=](const core::Outcome& outcome, const View& view) {
                   SetHeader(view, response);
                   response->set_unknown(!is_local_admin && !std::get<bool>(outcome.reply));
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* ListHolders(grpc::CallbackServerContext* context,
                                        const v1::ListHoldersRequest*,
                                        v1::ListHoldersResponse* response) override {
    return Ask(gate_.Admit(*context, Rpc::kAccessListHolders), context, [=](const View& view) {
      SetHeader(view, response);
      const auto& [people, workers, tokens] = view.coordinator.state().access.contents();
      for (const auto* holders : {&people, &workers}) {
        for (const auto& [name, holder] : *holders) {
          v1::Holder* listed = response->add_holders();
          listed->set_name(name);
          listed->set_worker(holders == &workers);
          if (holder.role) listed->set_role(std::string(security::NameOf(*holder.role)));
          if (holder.revoked_at > absl::InfinitePast()) {
            *listed->mutable_revoked_at() = ToProto(holder.revoked_at);
          }
          if (holder.joined_again()) *listed->mutable_joined_at() = ToProto(holder.joined_at);
        }
      }
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* ListRefusals(grpc::CallbackServerContext* context,
                                         const v1::ListRefusalsRequest*,
                                         v1::ListRefusalsResponse* response) override {
    return Ask(gate_.Admit(*context, Rpc::kAccessListRefusals), context,
               [=, this](const View& view) {
                 SetHeader(view, response);
                 for (const RefusedCall& refusal : gate_.refusals().Latest()) {
                   v1::Refusal* listed = response->add_refusals();
                   *listed->mutable_at() = ToProto(refusal.at);
                   listed->set_caller(refusal.caller);
                   listed->set_peer(refusal.peer);
                   listed->set_rpc(refusal.rpc ? std::string(NameOf(*refusal.rpc)) : kConnection);
                   listed->set_reason(refusal.reason);
                   listed->set_count(refusal.count);
                 }
                 return absl::OkStatus();
               });
  }

 private:
  // The token that an enrolment uses up, and for whom. An administrator's needs no token.
  // Errors: Unauthenticated, InvalidArgument.
  absl::StatusOr<core::UseToken> Joining(const v1::EnrollRequest& request) const {
    DP_RETURN_IF_ERROR(CheckGivesOut());
    security::JoinClaims claims;
    if (request.token().empty()) {
      claims = {.identity = {Role::kWorker, request.name()}};
    } else {
      DP_ASSIGN_OR_RETURN(claims, authority_->tokens().CheckJoin(request.token(), absl::Now()));
    }
    Identity& identity = claims.identity;
    if (identity.role == Role::kWorker && identity.name.empty()) identity.name = request.name();
    if (identity.role == Role::kWorker && identity.name != request.name()) {
      return absl::UnauthenticatedError(absl::StrCat(
          "the token is for worker ", identity.name, ", and not for ",
          request.name().empty() ? "one without a name" : Shown(request.name()),
          "; start dp-worker with --name ", identity.name, ", or ask for another token"));
    }
    const bool unnamed = identity.role == Role::kWorker && identity.name.empty();
    DP_RETURN_IF_ERROR(CheckName(unnamed ? Identity{Role::kWorker, request.host()} : identity));
    core::UseToken use{claims.id, claims.uses, claims.expires_at, identity, request.host()};
    if (!claims.id.empty()) use.made_at = claims.made_at;
    return use;
  }
  // Errors: InvalidArgument a lesser role for the administrator who is always there.
  static absl::Status CheckNotLocalAdmin(const Identity& person) {
    if (person.role == Role::kAdmin || person.name != kLocalAdmin) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(kLocalAdmin,
                     " is the administrator whose credential the coordinator makes, and stays "
                     "one; give the person another name"));
  }
  // Whether administrators are left after a grant. Errors: InvalidArgument, FailedPrecondition.
  static absl::Status CheckAdminsLeft(const Identity& granted, const Caller& by) {
    DP_RETURN_IF_ERROR(CheckNotLocalAdmin(granted));
    if (granted.role == Role::kAdmin) return absl::OkStatus();
    if (by.is_person() && by.identity.name == granted.name) {
      return absl::FailedPreconditionError(
          absl::StrCat(granted.name,
                       " would take the role of an administrator from itself; let another "
                       "administrator grant the role ",
                       security::NameOf(granted.role)));
    }
    return absl::OkStatus();
  }
  // Whether this coordinator's authority has signed the certificate. Others may be trusted, too.
  bool IsOurs(const std::string& pem) const {
    const auto certificate = security::Certificate::FromPem(pem);
    return authority_ != nullptr && certificate.ok() &&
           certificate->IsSignedBy(authority_->certificates().certificate());
  }
  template <typename Response>
  absl::Status Issue(const Identity& identity, const std::string& signing_request, const View& view,
                     Response* response) const {
    if (authority_ == nullptr) return NoCertificates();
    DP_ASSIGN_OR_RETURN(const IssuedCertificate issued,
                        authority_->Issue(signing_request, identity, MadeAt(identity, view)));
    SetHeader(view, response);
    FillCertificate(issued, response->mutable_certificate());
    // Its holder knows whose certificate the coordinator shows, and the coordinator does not.
    if (!own_certificate_) response->mutable_certificate()->clear_authorities();
    return absl::OkStatus();
  }
  template <typename Response>
  absl::Status MakeToken(const Identity& identity, int uses, absl::Duration valid, const View& view,
                         Response* response) const {
    DP_RETURN_IF_ERROR(CheckGivesOut());
    // As a certificate, it must be younger than the last revocation.
    const absl::Time now =
        std::max(absl::Now(), view.coordinator.state().access.ValidAfter(identity));
    SetHeader(view, response);
    response->set_token(authority_->JoinToken(identity, uses, now, valid));
    *response->mutable_expires_at() = ToProto(now + valid);
    return absl::OkStatus();
  }
  // Errors: FailedPrecondition nobody who joins would trust this coordinator.
  absl::Status CheckGivesOut() const {
    if (authority_ == nullptr) return NoCertificates();
    if (own_certificate_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "this coordinator has a certificate from elsewhere (--tls-cert), to which no token leads; "
        "workers and people call with certificates of an authority in its --client-ca, which "
        "dp-worker and dpctl take as --credentials DIR, and 'dpctl grant' gives roles to people");
  }
  static absl::Status NoCertificates() {
    return absl::FailedPreconditionError(
        "this coordinator gives out no certificates: it does not use TLS");
  }

  Gate& gate_;
  const Authority* const authority_;
  const bool own_certificate_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAccessService(Gate& gate, const Authority* authority,
                                                 bool own_certificate) {
  return std::make_unique<AccessService>(gate, authority, own_certificate);
}

}  // namespace dp::server
