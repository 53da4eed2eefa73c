#include "worker/agent/worker_flags.h"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/labels.h"
#include "base/name.h"
#include "base/variable_pattern.h"
#include "base/version.h"
#include "worker/agent/local_address.h"
#include "worker/agent/processes/rank_cgroups.h"
#include "worker/agent/sandbox/program_rule.h"

namespace dp::worker {
namespace {

// Checks for CLI11: they return what is wrong with a value; empty: nothing.
std::string WhyNoHostPort(const std::string& text) {
  return std::string(ParseHostPort(text).status().message());
}

std::string WhyNoLabel(const std::string& text) {
  const absl::Status status = ParseLabel(text).status();
  return status.ok() ? "" : absl::StrCat("the label ", std::string(status.message()));
}

std::string WhyNoWorkerName(const std::string& text) {
  if (IsWorkerName(text)) return "";
  return absl::StrCat("'", text, "' is no worker name; use ", kWorkerNameRule);
}

// An unset variable of a script must not pass for no --join.
std::string WhyNoToken(const std::string& text) {
  return text.empty() ? "the token is empty; 'dpctl token' prints one" : "";
}

std::string WhyNoVariablePattern(const std::string& text) {
  if (IsVariablePattern(text)) return "";
  return absl::StrCat("'", text, "' names no variables; use ", kVariablePatternRule);
}

// The host may get the address later; Serve checks whether it has it.
std::string WhyNeverOurs(const std::string& address) {
  const absl::Status status = CheckOwnAddress(address);
  return absl::IsInvalidArgument(status) ? std::string(status.message()) : "";
}

std::string WhyNoProgram(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return path + " does not exist";
  const bool runs =
      std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  return runs ? "" : path + " is no program that can be run";
}

// The path may be there later; SandboxOf checks that.
std::string WhyNotWritable(const std::string& path) {
  const std::string normal = std::filesystem::path(path).lexically_normal();
  if (normal.starts_with('/') && normal != "/") return "";
  return "'" + path + "' cannot be writable alone; use an absolute path below /, such as /scratch";
}

// Rejects two values for one key, because one would be dropped. Throws like CLI11's own checks.
void CheckLabelKeys(const WorkerFlags& flags) {
  std::set<std::string> keys;
  for (const std::string& text : flags.labels) {
    const Label label = *ParseLabel(text);  // already checked
    if (keys.insert(label.key).second) continue;
    throw CLI::ValidationError("--label", absl::StrCat("the key ", label.key, " is given twice"));
  }
}

}  // namespace

std::optional<int> ReadCommandLine(int argc, const char* const* argv, WorkerFlags* flags) {
  CLI::App app(
      "Runs the ranks that the coordinator assigns to this host.\n\n"
      "Example: dp-worker --coordinator 10.0.0.1:7070 --slots 2\n");
  app.add_option("--coordinator", flags->coordinator, "HOST:PORT of the coordinator")
      ->envname("DP_COORDINATOR")
      ->check(WhyNoHostPort)
      ->capture_default_str();
  app.add_option("--join", flags->join,
                 "token that lets this worker join the cluster: the coordinator prints one at its "
                 "first start, 'dpctl token' prints others; needed once")
      ->envname("DP_JOIN_TOKEN")
      ->type_name("TOKEN")
      ->check(WhyNoToken);
  app.add_option("--credentials", flags->credentials.dir,
                 "directory with ca.crt, tls.crt and tls.key in place of a token: of this worker, "
                 "or of an administrator who joins it")
      ->envname("DP_CREDENTIALS")
      ->type_name("DIR");
  app.add_flag("--insecure", flags->credentials.insecure,
               "call the coordinator in plain text, which proves nothing and hides nothing")
      ->envname("DP_INSECURE");
  app.add_flag("--accept-other-users", flags->credentials.accept_other_users,
               "start although other users can write --state-dir or the credential, or read its "
               "key, as in a pod whose volume is open to all")
      ->envname("DP_ACCEPT_OTHER_USERS");
  app.add_option("--slots", flags->slots,
                 "ranks that may run here at a time; default: GPUs, or cores where there are none")
      ->check(CLI::Range(1, kSlotsMax));
  app.add_option("--name", flags->name, "name of this worker; default: after the host")
      ->check(WhyNoWorkerName);
  app.add_option("--address", flags->address,
                 "address of this host for ranks on others; default: the one that leads to the "
                 "coordinator")
      ->check(WhyNeverOurs);
  app.add_option("--state-dir", flags->state_dir,
                 "where ranks' output waits to be sent; with the same one a killed daemon is back "
                 "at once; default: a fresh directory");
  app.add_option("--spool-bytes-max", flags->spool_bytes_max,
                 "how much of it may wait, as 1GiB; past it the oldest is cut, with a mark")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 50))
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--trainer", flags->trainer, "program of a train job's rank")
      ->check(WhyNoProgram)
      ->capture_default_str();
  app.add_option("--label", flags->labels,
                 "KEY=VALUE that jobs can ask for, as rack=r1; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(WhyNoLabel);
  app.add_option("--pass-env", flags->pass_env,
                 "a further variable of this daemon that ranks get; PREFIX* for several, without "
                 "those that look like secrets; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME")
      ->check(WhyNoVariablePattern);
  app.add_flag("--pass-all-env", flags->pass_all_env,
               "ranks get all variables of this daemon, secrets too; for a daemon of one user");
  app.add_option(
         "--run-as", flags->run_as,
         "whom jobs run as: owner (the account with the name of the job's owner), self (this "
         "daemon's user), or an account for all jobs; default: owner if this daemon is "
         "root, else self")
      ->envname("DP_RUN_AS")
      ->type_name("POLICY");
  app.add_flag("--allow-root", flags->allow_root,
               "jobs may run as root, by --run-as self of a root daemon or as an account of uid 0");
  app.add_flag("--new-privileges", flags->new_privileges,
               "let setuid programs, such as sudo, give ranks their privileges");
  app.add_flag("--private-tmp", flags->private_tmp,
               "the ranks of each job on this host get a /tmp and /var/tmp of their own, below "
               "--state-dir, which are removed after them");
  CLI::Option* read_only = app.add_flag(
      "--read-only-root", flags->read_only_root,
      "ranks see all files read-only, except /tmp, /var/tmp, /dev, /proc and --writable");
  app.add_option("--writable", flags->writable,
                 "a path that ranks may write with --read-only-root, where permissions allow it; "
                 "may be repeated")
      ->needs(read_only)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATH")
      ->check(WhyNotWritable);
  app.add_option("--allow-program", flags->allow_program,
                 "a program that jobs may run, by its path without links: /usr/bin/python3*, or "
                 "/opt/tools/ for all below; an interpreter allows everything; may be repeated; "
                 "default: every program")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN")
      ->check(WhyNoProgramPattern);
  app.add_flag("--store-any-user", flags->store_any_user,
               "serve ranks' stores to all processes of this host, as for ranks in containers that "
               "the daemon did not start; default: only to processes of the job, and of root");
  app.add_option("--undrain", flags->undrain,
                 "once registered, end the drain of this worker that has this reason")
      ->type_name("REASON");
  app.add_option(
         "--process-tracking", flags->process_tracking,
         "how to find all that a rank has started: cgroup, guard (by its parents), or auto, "
         "which is cgroup where one may be written")
      ->envname("DP_PROCESS_TRACKING")
      ->check(CLI::IsMember(kProcessTrackings))
      ->capture_default_str();
  app.add_option("--gpu-free-mib", flags->gpu_free_mib,
                 "memory of a GPU that may be in use, in MiB, where it counts as free")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--gpu-free-within", flags->gpu_free_within_s,
         "seconds from the end of a rank in which its GPU must be free again; later its slot "
         "counts as unhealthy, until it is")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--gpu-errors-max", flags->gpu_errors_max,
                 "uncorrected memory errors that a GPU may have had since it was last reset; with "
                 "more its slot counts as unhealthy")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))
      ->capture_default_str();
  app.add_flag("--list-gpus", flags->list_gpus,
               "say which GPUs of this host ranks may use, or why none, and exit");
  app.add_flag("--list-devices", flags->list_devices,
               "say which TPUs, GPUs and CPUs this host has, and exit");
  // The daemon runs itself with this flag, so that a driver's library that hangs or crashes harms
  // only that process. Not for people: --help does not show an empty group.
  app.add_option("--list-nvml", flags->list_nvml, "say what this library knows")->group("");
  app.set_version_flag("--version", VersionLine("dp-worker"));
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return absl::StrCat("dp-worker: ", error.what(), "\nRun with --help for more information.\n");
  });
  try {
    app.parse(argc, argv);
    CheckLabelKeys(*flags);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  // A token from a file ends with a line break.
  flags->join = std::string(absl::StripAsciiWhitespace(flags->join));
  return std::nullopt;
}

}  // namespace dp::worker
