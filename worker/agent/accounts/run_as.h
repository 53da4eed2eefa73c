#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/agent/accounts/account.h"

// Which account a worker's ranks run as (docs/worker.md, Whose rights a rank has). Pure.

namespace dp::worker {

// A worker's policy.
struct RunAs {
  enum class Kind {
    kSelf,     // the daemon's own user
    kOwner,    // the account with the name of the job's owner
    kAccount,  // `account`, for all jobs
  };
  Kind kind = Kind::kSelf;
  std::string account = {};
  bool allow_root = false;  // ranks may run as uid 0

  // Whether ranks run as users other than the daemon's, so that the daemon needs root's rights.
  bool changes_user() const { return kind != Kind::kSelf; }

  bool operator==(const RunAs&) const = default;
};

// The policy of a daemon that runs as user `daemon`. `policy` is the value of --run-as: "self",
// "owner", any other word names an account; empty: the default. Errors: InvalidArgument the
// daemon's user cannot have this policy; the message says which one it can have.
absl::StatusOr<RunAs> RunAsFrom(const std::string& policy, bool allow_root, uid_t daemon);

// A job, as far as the policy needs it.
struct JobOwner {
  uint64_t job = 0;
  // Empty: nobody has proven to own the job. Absent: the coordinator does not say.
  std::optional<std::string> owner = {};
};

// The account to look up for the job. Precondition: changes_user(). Errors: FailedPrecondition the
// job has no known owner; the message names `worker` and the remedy.
absl::StatusOr<std::string> AccountNameFor(const RunAs& run_as, const JobOwner& job,
                                           const std::string& worker);

// The account as which the job's ranks run, given what the look-up of its name has found. Errors:
// FailedPrecondition there is none, or it is root's and root is not allowed; those of the look-up.
// The message names owner or account, `worker` and the remedy.
absl::StatusOr<Account> AccountFor(const RunAs& run_as, const JobOwner& job,
                                   const absl::StatusOr<Account>& found, const std::string& worker);

// Whether the account of --run-as exists and may be used. Precondition: kAccount. Errors: as
// AccountFor.
absl::Status CheckFixedAccount(const RunAs& run_as, const absl::StatusOr<Account>& found);

}  // namespace dp::worker
