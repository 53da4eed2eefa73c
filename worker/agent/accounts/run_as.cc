#include "worker/agent/accounts/run_as.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::worker {
namespace {

constexpr uid_t kRoot = 0;
constexpr char kSelfWord[] = "self";
constexpr char kOwnerWord[] = "owner";

RunAs PolicyOf(const std::string& policy, bool allow_root, uid_t daemon) {
  const std::string word =
      !policy.empty() ? policy : std::string(daemon == kRoot ? kOwnerWord : kSelfWord);
  if (word == kSelfWord) return {RunAs::Kind::kSelf, "", allow_root};
  if (word == kOwnerWord) return {RunAs::Kind::kOwner, "", allow_root};
  return {RunAs::Kind::kAccount, word, allow_root};
}

absl::Status NoOwner(const std::string& worker, const std::string& fault,
                     const std::string& remedy) {
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", worker, " runs jobs as their owners (--run-as owner), and ", fault,
                   "; ", remedy, ", or start the worker with --run-as ACCOUNT"));
}

absl::Status CheckAccount(const RunAs& run_as, const absl::StatusOr<Account>& found) {
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("--run-as ", run_as.account,
                     ": this host has no account of that name; create it, or name another"));
  }
  DP_RETURN_IF_ERROR(found.status());
  if (found->uid != kRoot || run_as.allow_root) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--run-as ", run_as.account,
                   ": this account is root (uid 0); name another, or add --allow-root"));
}

}  // namespace

absl::StatusOr<RunAs> RunAsFrom(const std::string& policy, bool allow_root, uid_t daemon) {
  RunAs run_as = PolicyOf(policy, allow_root, daemon);
  if (daemon != kRoot && run_as.changes_user()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--run-as ", policy,
                     ": only root can run jobs as another user, and this "
                     "daemon runs as uid ",
                     daemon, "; leave --run-as out, or start it as root"));
  }
  if (daemon == kRoot && !run_as.changes_user() && !allow_root) {
    return absl::InvalidArgumentError(
        "--run-as self: this daemon is root, and so its jobs would be; name an account for them, "
        "or add --allow-root");
  }
  return run_as;
}

absl::StatusOr<std::string> AccountNameFor(const RunAs& run_as, const JobOwner& job,
                                           const std::string& worker) {
  DP_CHECK(run_as.changes_user());
  if (run_as.kind == RunAs::Kind::kAccount) return run_as.account;
  if (!job.owner.has_value()) {
    return NoOwner(
        worker,
        absl::StrCat("the coordinator, of an earlier release, does not say who owns job ", job.job),
        "upgrade the coordinator");
  }
  if (job.owner->empty()) {
    return NoOwner(worker,
                   absl::StrCat("job ", job.job,
                                " belongs to nobody: it was submitted in plain text, or to an "
                                "earlier release"),
                   "log in and submit it again");
  }
  return *job.owner;
}

absl::StatusOr<Account> AccountFor(const RunAs& run_as, const JobOwner& job,
                                   const absl::StatusOr<Account>& found,
                                   const std::string& worker) {
  if (run_as.kind == RunAs::Kind::kAccount) {
    const absl::Status status = CheckAccount(run_as, found);
    if (status.ok()) return found;
    return absl::Status(status.code(),
                        absl::StrCat("worker ", worker, ": ", std::string(status.message())));
  }
  const std::string belongs = absl::StrCat("job ", job.job, " belongs to ", job.owner.value_or(""));
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(belongs, ", and the host of worker ", worker,
                     " has no account of that name; create the account, or start the worker with "
                     "--run-as ACCOUNT"));
  }
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat(belongs, ": on the host of worker ", worker, ", ",
                                     std::string(found.status().message())));
  }
  if (found->uid != kRoot || run_as.allow_root) return found;
  return absl::FailedPreconditionError(
      absl::StrCat(belongs, ", whose account on the host of worker ", worker,
                   " is root (uid 0); submit the job as another user, or start the worker with "
                   "--run-as ACCOUNT or --allow-root"));
}

absl::Status CheckFixedAccount(const RunAs& run_as, const absl::StatusOr<Account>& found) {
  DP_CHECK(run_as.kind == RunAs::Kind::kAccount);
  return CheckAccount(run_as, found);
}

}  // namespace dp::worker
