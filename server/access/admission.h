#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/id.h"
#include "base/rank.h"
#include "server/access/access_table.h"
#include "server/access/caller.h"
#include "server/access/refusals.h"
#include "server/driver/driver.h"

namespace dp::server {

// The object of a call. Empty fields: nothing of that kind.
struct AccessObject {
  static AccessObject Of(JobId job) { return {.job = job}; }
  static AccessObject Of(JobId job, Generation generation) {
    return {.job = job, .generation = generation};
  }
  static AccessObject Of(const RankKey& rank) {
    return {.job = rank.job, .generation = rank.generation, .rank = rank.rank};
  }
  static AccessObject Of(WorkerId worker) { return {.worker = worker}; }
  static AccessObject OfWorkerNamed(std::string name) { return {.worker_name = std::move(name)}; }
  static AccessObject OfUser(std::string name) { return {.user = std::move(name)}; }

  JobId job = {};
  Generation generation = {};    // a rank's token must be of this one
  std::optional<int> rank = {};  // a rank's token must be of this one
  WorkerId worker = {};
  std::optional<std::string> worker_name = {};
  std::optional<std::string> user = {};  // in whose name the call acts
};

// The driver, as one call may use it: of one caller, for one RPC, about one object. The methods are
// those of Driver. Each checks the caller when the driver gets to it, with the state of that
// moment. A caller who may not gets the error in place of the answer: Unauthenticated,
// PermissionDenied. To a user, a job that is not theirs is one that is not there: NotFound. A wait
// also ends with the error when access changes meanwhile, and when the caller's certificate
// expires. A caller who makes too many calls is rejected at once, and costs the driver nothing:
// ResourceExhausted. A value; the driver and the refusals must outlive it.
class Admission {
 public:
  // `refused`: the caller is rejected in any case.
  Admission(Driver& driver, Refusals& refusals, Rpc rpc, Caller caller, AccessObject object,
            absl::Status refused);

  // The same call, about this object: for calls whose object is known later.
  Admission About(AccessObject object) const;
  // The same call, whose rejection by the machine counts as a refusal.
  Admission NotesRejections() const;
  // The same call, which must also pass this check, once its caller may make it. For Submit.
  Admission Requires(dp::server::Permit check) const;
  // A part of the call, about this object. The call's own wait ends its parts when access changes.
  Admission Part(AccessObject object) const;

  const Caller& caller() const { return caller_; }
  // The name of the user for whom the caller submits jobs and sees lists; empty: any user.
  std::string user(const View& view) const;
  // As WhoAmI has it.
  std::string role(const View& view) const;
  // Notes that the call was refused for this reason, which it returns.
  absl::Status Refused(absl::Status why) const;
  // Whether a list that the caller gets may contain the job; null: a job that is gone.
  bool Sees(const core::Job* job, const View& view) const;
  // The same for an event. One about a job that is gone names the job's owner.
  bool Sees(const core::Event& event, const View& view) const;
  // Whether the caller gets jobs without the values of their variables, which may be secret.
  bool HidesValues(const View& view) const;

  absl::Status Submit(core::Action action, Driver::OnOutcome done) const;
  absl::Status Ask(Driver::OnAnswer done) const;
  absl::Status Wait(Waiters::Ticket ticket, std::vector<core::Topic> topics, absl::Duration timeout,
                    Driver::Question question, std::optional<BlockedCall> blocked = {}) const;
  // nullopt also where the caller must be checked first.
  std::optional<Heartbeats::Renewal> Renew(WorkerId worker, Incarnation incarnation,
                                           uint64_t lease_number) const;
  absl::Status Hear(WorkerId worker, Incarnation incarnation, Driver::OnAnswer done,
                    uint64_t lease_number = 0) const;
  absl::Status TellLogs(JobId job, uint64_t version, Driver::OnAnswer done) const;
  void Cancel(std::vector<Waiters::Ticket> tickets) const { driver_->Cancel(std::move(tickets)); }
  void Cancel(Waiters::Ticket ticket) const { driver_->Cancel(ticket); }
  Waiters::Ticket NewTicket() const { return driver_->NewTicket(); }

  // Whether the caller may make the call now. On the driver's thread.
  absl::Status Check(const View& view) const;

 private:
  // In plain text nobody proves who they are. Tokens and certificates would outlast --insecure.
  bool concerns_access() const {
    return rpc_ != Rpc::kAccessWhoAmI && absl::StartsWith(NameOf(rpc_), "Access.");
  }
  bool free() const { return caller_.kind == Caller::Kind::kInsecure && !concerns_access(); }
  bool too_many() const { return absl::IsResourceExhausted(refused_); }
  // Check of a caller who was admitted before. A job of others that they have seen is no secret, so
  // the error is PermissionDenied.
  absl::Status CheckAgain(const View& view) const;
  absl::Status CheckCaller(const View& view) const;
  absl::Status CheckCertificate(const AccessRow& row, const View& view) const;
  absl::Status CheckPerson(const core::Coordinator& coordinator) const;
  absl::Status CheckWorker(const core::Coordinator& coordinator) const;
  absl::Status CheckRank(const core::Coordinator& coordinator) const;
  absl::Status Denied(absl::string_view why) const;
  // The end of a wait that has outlasted the caller's certificate.
  absl::Status Expired(const View& view) const;
  // Notes a call that was rejected for this reason.
  void Note(const absl::Status& status, const View& view) const;
  std::string actor() const;
  // Its role; that of its certificate, or what was granted. Errors: Unauthenticated revoked;
  // PermissionDenied none was granted.
  absl::StatusOr<security::Role> RoleIn(const View& view) const;
  // Check, for the driver; null where every caller may.
  dp::server::Permit PermitOf() const;
  // Passes on the error of Check in place of OK.
  Driver::OnAnswer Checked(Driver::OnAnswer done) const;

  Driver* driver_;
  Refusals* refusals_;
  Rpc rpc_;
  Caller caller_;
  AccessObject object_;
  absl::Status refused_;
  dp::server::Permit required_;
  bool notes_rejections_ = false;
  bool part_ = false;  // of a call whose own wait ends all its parts
};

}  // namespace dp::server
