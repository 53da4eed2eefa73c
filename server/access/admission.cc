#include "server/access/admission.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/program/shell_word.h"
#include "base/status.h"
#include "server/core/coordinator.h"

namespace dp::server {
namespace {

using security::Role;

Reach ReachOf(Role role, const AccessRow& row) {
  switch (role) {
    case Role::kAdmin:
      return Reach::kAll;
    case Role::kUser:
      return row.user;
    case Role::kViewer:
      return row.viewer;
    case Role::kWorker:
      return row.worker;
    case Role::kCoordinator:
      return Reach::kNone;
  }
  return Reach::kNone;
}

const core::Worker* WorkerNamed(const core::Coordinator& coordinator, const std::string& name) {
  const core::WorkerTable& workers = coordinator.state().workers;
  const auto id = workers.IdOf(name);
  return id.ok() ? workers.Find(*id) : nullptr;
}

// Whether the worker has ranks of the job's generation, also ended ones: the worker of rank 0 may
// serve the store of the others. The slots are asked first, because a job may have 10,000 ranks.
bool HasRanksOf(const core::Job& job, const core::Worker& worker) {
  const auto is_of_job = [&job](const std::optional<RankKey>& rank) {
    return rank.has_value() && rank->job == job.id;
  };
  const auto is_here = [&worker](const core::Rank& rank) { return rank.worker_id == worker.id; };
  return absl::c_any_of(worker.slots, is_of_job) || absl::c_any_of(job.ranks, is_here);
}

// A caller without the right learns who has it, and who can give it. Whoever copies the line need
// not trust the authority that made the name.
std::string WhoMay(const Caller& caller, Role role, const AccessRow& row) {
  if (!caller.is_person()) return absl::StrCat("it is not for ", security::NameOf(role), "s");
  const bool users = row.user != Reach::kNone;
  return absl::StrCat("it is for administrators", users ? " and users" : "",
                      row.viewer != Reach::kNone ? " and viewers" : "",
                      ", and an administrator can give that role: dpctl grant ",
                      users ? "user " : "admin ", ShellWord(caller.identity.name));
}

std::string OwnerText(const core::Job& job) {
  return absl::StrCat("job ", job.id.ToString(), " belongs to ", core::OwnerOf(job));
}

}  // namespace

Admission::Admission(Driver& driver, Refusals& refusals, Rpc rpc, Caller caller,
                     AccessObject object, absl::Status refused)
    : driver_(&driver),
      refusals_(&refusals),
      rpc_(rpc),
      caller_(std::move(caller)),
      object_(std::move(object)),
      refused_(std::move(refused)) {}

Admission Admission::About(AccessObject object) const {
  Admission same = *this;
  same.object_ = std::move(object);
  return same;
}

Admission Admission::NotesRejections() const {
  Admission same = *this;
  same.notes_rejections_ = true;
  return same;
}

Admission Admission::Requires(dp::server::Permit check) const {
  Admission same = *this;
  same.required_ = std::move(check);
  return same;
}

Admission Admission::Part(AccessObject object) const {
  Admission part = About(std::move(object));
  part.part_ = true;
  return part;
}

absl::StatusOr<Role> Admission::RoleIn(const View& view) const {
  const core::AccessList& access = view.coordinator.state().access;
  if (caller_.role_must_be_granted && !access.HasRole(caller_.identity)) {
    return Denied(absl::StrCat(
        "its certificate names no role of dp, and no role has been granted to it; an administrator "
        "can: dpctl grant user ",
        ShellWord(caller_.identity.name)));
  }
  absl::StatusOr<Role> role = access.RoleOf(caller_.identity, caller_.certified_at);
  if (!absl::IsUnauthenticated(role.status())) return role;
  if (caller_.revoked != nullptr) *caller_.revoked = true;
  if (!caller_.role_must_be_granted) return role;
  return absl::UnauthenticatedError(absl::StrCat("the certificate of ", ToString(caller_),
                                                 " was revoked; get a new one where it was made"));
}

std::string Admission::user(const View& view) const {
  if (!caller_.is_person()) return "";
  const absl::StatusOr<Role> role = RoleIn(view);
  return role.ok() && *role == Role::kUser ? caller_.identity.name : "";
}

std::string Admission::role(const View& view) const {
  switch (caller_.kind) {
    case Caller::Kind::kInsecure:
      return "insecure";
    case Caller::Kind::kStranger:
      return "none";
    case Caller::Kind::kRank:
      return "rank";
    case Caller::Kind::kCertificate:
      return std::string(security::NameOf(RoleIn(view).value_or(caller_.identity.role)));
  }
  return "?";
}

absl::Status Admission::Refused(absl::Status why) const {
  refusals_->Add(caller_, rpc_, why, absl::Now());
  return why;
}

bool Admission::Sees(const core::Job* job, const View& view) const {
  const std::string name = user(view);
  return name.empty() || (job != nullptr && job->owner == name);
}

bool Admission::Sees(const core::Event& event, const View& view) const {
  if (!event.job.valid()) return true;
  if (event.owner.empty()) return Sees(view.coordinator.job(event.job), view);
  const std::string name = user(view);
  return name.empty() || event.owner == name;
}

bool Admission::HidesValues(const View& view) const {
  return caller_.is_person() && RoleIn(view).value_or(Role::kViewer) == Role::kViewer;
}

absl::Status Admission::Check(const View& view) const {
  if (free()) return absl::OkStatus();
  absl::Status status = refused_.ok() ? CheckCaller(view) : refused_;
  if (!status.ok()) Note(status, view);
  return status;
}

absl::Status Admission::CheckAgain(const View& view) const {
  absl::Status status = Check(view);
  const core::Job* const job = view.coordinator.job(object_.job);
  return absl::IsNotFound(status) && job != nullptr ? Denied(OwnerText(*job)) : status;
}

absl::Status Admission::Expired(const View& view) const {
  absl::Status status = CertificateExpired(caller_);
  Note(status, view);
  return status;
}

// A job that is not there is no refusal. Administrators learn whose job it was, unlike the caller.
void Admission::Note(const absl::Status& status, const View& view) const {
  if (!absl::IsNotFound(status)) return refusals_->Add(caller_, rpc_, status, view.now);
  const core::Job* const job = view.coordinator.job(object_.job);
  if (job != nullptr) refusals_->Add(caller_, rpc_, Denied(OwnerText(*job)), view.now);
}

absl::Status Admission::CheckCaller(const View& view) const {
  const AccessRow row = RowOf(rpc_);
  switch (caller_.kind) {
    case Caller::Kind::kInsecure:
      return Denied("in plain text nobody proves who they are; call over TLS");
    case Caller::Kind::kStranger:
      if (row.stranger == Reach::kAll) return absl::OkStatus();
      return absl::UnauthenticatedError(
          absl::StrCat(NameOf(rpc_), " needs a credential, and the caller has shown none"));
    case Caller::Kind::kRank:
      if (row.rank == Reach::kNone) return Denied("it is not for ranks");
      return row.rank == Reach::kAll ? absl::OkStatus() : CheckRank(view.coordinator);
    case Caller::Kind::kCertificate:
      return CheckCertificate(row, view);
  }
  return absl::InternalError("a caller of no kind");
}

absl::Status Admission::CheckCertificate(const AccessRow& row, const View& view) const {
  DP_ASSIGN_OR_RETURN(const Role role, RoleIn(view));
  switch (ReachOf(role, row)) {
    case Reach::kAll:
      return absl::OkStatus();
    case Reach::kOwn:
      return role == Role::kWorker ? CheckWorker(view.coordinator) : CheckPerson(view.coordinator);
    case Reach::kNone:
      break;
  }
  // A role that was granted counts, whatever the certificate says.
  return absl::PermissionDeniedError(absl::StrCat(
      caller_.is_person() ? security::ToString({role, caller_.identity.name}) : ToString(caller_),
      " may not call ", NameOf(rpc_), ": ", WhoMay(caller_, role, row)));
}

// A user must not learn from the answer whether there is a job that they may not see.
absl::Status Admission::CheckPerson(const core::Coordinator& coordinator) const {
  if (object_.user.has_value() && *object_.user != caller_.identity.name) {
    return Denied(absl::StrCat("it is in the name of ", *object_.user));
  }
  if (!object_.job.valid()) return absl::OkStatus();
  const core::Job* const job = coordinator.job(object_.job);
  if (job != nullptr && job->owner == caller_.identity.name) return absl::OkStatus();
  return core::UnknownJob(object_.job);
}

// An object that is not there is left to the machine, which says so.
absl::Status Admission::CheckWorker(const core::Coordinator& coordinator) const {
  const std::string& name = caller_.identity.name;
  if (object_.worker_name.has_value() && *object_.worker_name != name) {
    return Denied(absl::StrCat("it is about worker ", *object_.worker_name));
  }
  if (const core::Worker* const worker = coordinator.worker(object_.worker);
      worker != nullptr && worker->name != name) {
    return Denied(absl::StrCat("it is about worker ", worker->name));
  }
  const core::Job* const job = coordinator.job(object_.job);
  if (job == nullptr) return absl::OkStatus();
  const core::Worker* const own = WorkerNamed(coordinator, name);
  if (own != nullptr && HasRanksOf(*job, *own)) return absl::OkStatus();
  return Denied(absl::StrCat("no rank of job ", object_.job.ToString(), " is placed on it"));
}

// Whether a generation is over is left to the machine where the request names the generation.
absl::Status Admission::CheckRank(const core::Coordinator& coordinator) const {
  const RankKey& own = caller_.rank.rank;
  const core::Job* const job = coordinator.job(own.job);
  if (job == nullptr || job->submitted_at != caller_.rank.job_submitted_at) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token of ", ToString(caller_), " is of a job that is not on record"));
  }
  if (object_.job.valid() && object_.job != own.job) {
    return Denied(absl::StrCat("it is about job ", object_.job.ToString()));
  }
  if (!object_.generation.valid()) return core::CheckGeneration(*job, own.generation);
  if (object_.generation != own.generation) {
    return Denied(absl::StrCat("its token is of generation ", own.generation.ToString(),
                               ", and not of ", object_.generation.ToString()));
  }
  if (!object_.rank.has_value() || *object_.rank == own.rank) return absl::OkStatus();
  return Denied(absl::StrCat("it is about rank ", *object_.rank));
}

absl::Status Admission::Denied(absl::string_view why) const {
  return absl::PermissionDeniedError(
      absl::StrCat(ToString(caller_), " may not call ", NameOf(rpc_), ": ", why));
}

absl::Status Admission::Submit(core::Action action, Driver::OnOutcome done) const {
  if (too_many()) return refused_;
  if (notes_rejections_) {
    done = [own = *this, done = std::move(done)](const core::Outcome& outcome, const View& view) {
      if (!outcome.status.ok()) own.refusals_->Add(own.caller_, own.rpc_, outcome.status, view.now);
      done(outcome, view);
    };
  }
  return driver_->Submit(std::move(action), std::move(done),
                         {.actor = actor(), .permit = PermitOf()});
}

absl::Status Admission::Ask(Driver::OnAnswer done) const {
  if (too_many()) return refused_;
  return driver_->Ask(Checked(std::move(done)));
}

absl::Status Admission::Wait(Waiters::Ticket ticket, std::vector<core::Topic> topics,
                             absl::Duration timeout, Driver::Question question,
                             std::optional<BlockedCall> blocked) const {
  if (too_many()) return refused_;
  if (free()) {
    return driver_->Wait(ticket, std::move(topics), timeout, std::move(question),
                         std::move(blocked));
  }
  using Wake = Waiters::Wake;
  // The call's own wait ends its parts.
  const absl::Duration left = part_ ? absl::InfiniteDuration() : caller_.expires_at - absl::Now();
  const bool expires = left < timeout;
  if (!part_ && caller_.kind == Caller::Kind::kCertificate) {
    topics.push_back({.kind = core::Topic::Kind::kAccess});
  }
  auto checked = [own = *this, expires, admitted = false, question = std::move(question)](
                     Wake wake, const View& view) mutable {
    if (wake != Wake::kChanged && wake != Wake::kDeadline) return question(wake, view);
    const bool expired = expires && wake == Wake::kDeadline;
    const absl::Status status = expired    ? own.Expired(view)
                                : admitted ? own.CheckAgain(view)
                                           : own.Check(view);
    admitted = status.ok();
    if (status.ok()) return question(wake, view);
    View denied = view;
    denied.failure = status;
    return question(Wake::kDenied, denied);
  };
  return driver_->Wait(ticket, std::move(topics), std::min(timeout, left), std::move(checked),
                       std::move(blocked));
}

// Workers whose certificates were ever revoked are not published, so that the driver checks theirs.
std::optional<Heartbeats::Renewal> Admission::Renew(WorkerId worker, Incarnation incarnation,
                                                    uint64_t lease_number) const {
  const bool worker_calls = caller_.kind == Caller::Kind::kCertificate &&
                            caller_.identity.role == Role::kWorker && refused_.ok();
  if (!free() && !worker_calls) return std::nullopt;
  return driver_->Renew(worker, incarnation, lease_number, free() ? "" : caller_.identity.name);
}

absl::Status Admission::Hear(WorkerId worker, Incarnation incarnation, Driver::OnAnswer done,
                             uint64_t lease_number) const {
  if (too_many()) return refused_;
  return driver_->Hear(worker, incarnation, std::move(done), lease_number, PermitOf());
}

absl::Status Admission::TellLogs(JobId job, uint64_t version, Driver::OnAnswer done) const {
  return driver_->TellLogs(job, version, std::move(done));
}

// Only people say who they are. Requests of ranks and workers name them already, and are frequent.
std::string Admission::actor() const { return caller_.is_person() ? ToString(caller_) : ""; }

Permit Admission::PermitOf() const {
  if (free()) return required_;
  return [own = *this](const View& view) {
    const absl::Status status = own.Check(view);
    return status.ok() && own.required_ != nullptr ? own.required_(view) : status;
  };
}

Driver::OnAnswer Admission::Checked(Driver::OnAnswer done) const {
  if (free()) return done;
  return [own = *this, done = std::move(done)](const absl::Status& status, const View& view) {
    done(status.ok() ? own.Check(view) : status, view);
  };
}

}  // namespace dp::server
