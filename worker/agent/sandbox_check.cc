#include "worker/agent/sandbox_check.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "worker/agent/processes/guard_protocol.h"
#include "worker/agent/processes/run_program.h"
#include "worker/agent/processes/spawn.h"

namespace dp::worker {
namespace {

// Mounts take milliseconds, unless a file system hangs.
constexpr absl::Duration kTryPatience = absl::Seconds(30);

// No generation has this number.
constexpr JobId kNoJob(0);
constexpr Generation kNoGeneration(0);

std::string OptionsOf(const Sandbox& sandbox) {
  return absl::StrCat(sandbox.private_tmp ? "--private-tmp" : "",
                      sandbox.private_tmp && sandbox.read_only_root ? " and " : "",
                      sandbox.read_only_root ? "--read-only-root" : "");
}

std::string Remedy(bool keep_users) {
  if (keep_users || geteuid() == 0) {
    return "give the daemon CAP_SYS_ADMIN and the system calls for mounts, or leave the options "
           "out";
  }
  return "let users of this host make user namespaces (user.max_user_namespaces, "
         "kernel.apparmor_restrict_unprivileged_userns, and the service's own limits), or run the "
         "daemon as root, or leave the options out";
}

absl::Status TryMounts(const std::string& guard_path, const RankMounts& mounts, bool keep_users) {
  // The number of descriptors does not matter here.
  std::vector<std::string> argv{guard_path, "0"};
  for (std::string& each : MountArguments(mounts)) argv.push_back(std::move(each));
  // Any user but the daemon's.
  if (keep_users) argv.push_back(absl::StrCat(kGuardUser, "65534:65534:"));
  argv.emplace_back(kGuardTryMounts);
  DP_ASSIGN_OR_RETURN(const ProgramEnd end, RunProgram(std::move(argv), kTryPatience));
  if (end.exit_code == 0) return absl::OkStatus();
  if (end.timed_out) {
    return absl::UnavailableError(
        absl::StrCat("no answer within ", absl::FormatDuration(kTryPatience)));
  }
  return absl::UnavailableError(absl::StripSuffix(end.output, "\n"));
}

}  // namespace

absl::StatusOr<Sandbox> WithRealPaths(Sandbox sandbox) {
  for (std::string& path : sandbox.writable) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat("--writable ", path, ": ", error.message(), "; make it, or leave it out"));
    }
    if (real == "/") {
      return absl::FailedPreconditionError(absl::StrCat(
          "--writable ", path, " is /, so nothing would be read-only; name a path below it"));
    }
    path = real;
  }
  return sandbox;
}

absl::Status CheckMounts(const std::string& guard_path, const Sandbox& sandbox, PrivateTmps* tmps,
                         const std::string& spool_dir, bool keep_users) {
  if (!sandbox.needs_mounts()) return absl::OkStatus();
  RankMounts mounts = MountsOf(sandbox, spool_dir);
  if (tmps != nullptr) {
    DP_RETURN_IF_ERROR(tmps->Make(kNoJob, kNoGeneration, mounts));
    mounts.private_tmp = tmps->PathOf(kNoJob, kNoGeneration);
  }
  const absl::Status tried = TryMounts(guard_path, mounts, keep_users);
  if (tmps != nullptr) tmps->RanksGone(kNoJob, kNoGeneration);
  if (tried.ok()) return tried;
  return absl::FailedPreconditionError(
      absl::StrCat(OptionsOf(sandbox), ": ranks cannot have mounts of their own here: ",
                   std::string(tried.message()), "; ", Remedy(keep_users)));
}

}  // namespace dp::worker
