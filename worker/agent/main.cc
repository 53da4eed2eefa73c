#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/no_memory_limit.h"
#include "base/program/core_dumps.h"
#include "base/program/descriptor_limit.h"
#include "base/program/hidden_argument.h"
#include "base/program/log.h"
#include "base/program/notify_socket.h"
#include "base/random.h"
#include "base/security/tls13.h"
#include "base/status.h"
#include "client/connection.h"
#include "client/grpc_log.h"
#include "worker/agent/accounts/account_lookup.h"
#include "worker/agent/accounts/own_privileges.h"
#include "worker/agent/accounts/run_as.h"
#include "worker/agent/agent.h"
#include "worker/agent/cuda_trainer.h"
#include "worker/agent/drain_end.h"
#include "worker/agent/gpus/gpu_reader.h"
#include "worker/agent/gpus/gpus.h"
#include "worker/agent/gpus/host_devices.h"
#include "worker/agent/incarnation_record.h"
#include "worker/agent/launch/passed_variables.h"
#include "worker/agent/local_address.h"
#include "worker/agent/own_credential.h"
#include "worker/agent/processes/guard_lock.h"
#include "worker/agent/processes/guarded_runner.h"
#include "worker/agent/processes/oom_kills.h"
#include "worker/agent/processes/rank_cgroups.h"
#include "worker/agent/sandbox/private_tmps.h"
#include "worker/agent/sandbox_check.h"
#include "worker/agent/shutdown_signals.h"
#include "worker/agent/state_dir.h"
#include "worker/agent/stores/listener_probe.h"
#include "worker/agent/stores/reserved_ports.h"
#include "worker/agent/stores/store_endpoints.h"
#include "worker/agent/worker_flags.h"

namespace dp::worker {
namespace {

// The self-check opens the GPU. A driver that hangs must not keep the daemon from its other jobs.
constexpr absl::Duration kSelfCheckPatience = absl::Seconds(60);

// The directory of this program and of its companions.
std::filesystem::path ProgramDir() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::vector<std::string> Variables() {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  return variables;
}

CudaLimit OwnLimit() { return {getenv("CUDA_VISIBLE_DEVICES"), getenv("CUDA_DEVICE_ORDER")}; }

int ListGpus() {
  const GpuInventory found = TakeGpuInventory({});
  std::fputs(
      GpuLines(found, FindGpus(OwnLimit(), found.gpus), WhyLeftOut(OwnLimit(), found.gpus)).c_str(),
      stdout);
  return 0;
}

int ListDevices() {
  const GpuInventory found = TakeGpuInventory({});
  const std::vector<std::string> usable = FindGpus(OwnLimit(), found.gpus);
  const std::string gpus = GpuLines(found, usable, WhyLeftOut(OwnLimit(), found.gpus));
  std::fputs(DeviceLines(ListTpus("/sys"), gpus, !usable.empty(), ReadCpus("/proc")).c_str(),
             stdout);
  return 0;
}

// The process must not outlive a daemon that is killed meanwhile.
int ListNvml(const std::string& library) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::fputs(NvmlLines(ListByNvml(library)).c_str(), stdout);
  return 0;
}

void FindGpusHere(WorkerFlags* flags) {
  const GpuInventory found = TakeGpuInventory({});
  std::vector<std::string> usable = FindGpus(OwnLimit(), found.gpus);
  Log(found.nvml_fault.empty() ? Severity::kInfo : Severity::kWarning, "gpus_listed",
      {{"by", found.listed_by},
       {"installed", found.gpus.size()},
       {"usable", usable.size()},
       {"why_not", found.why_not},
       {"left_out", WhyLeftOut(OwnLimit(), found.gpus)}});
  flags->gpus = std::move(usable);
  flags->nvml_fault = found.nvml_fault;
}

int DefaultSlots(const std::vector<std::string>& gpus) {
  if (!gpus.empty()) return std::min(static_cast<int>(gpus.size()), kSlotsMax);
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

Labels LabelsFrom(const WorkerFlags& flags) {
  Labels labels;
  for (const std::string& text : flags.labels) {
    const Label label = *ParseLabel(text);  // checked with the flags
    labels[label.key] = label.value;
  }
  return labels;
}

// By slot.
std::vector<std::vector<Device>> SlotDevicesOf(const HostFacts& host) {
  std::vector<std::vector<Device>> by_slot(host.slots);
  for (int slot = 0; slot < host.slots; ++slot) {
    for (const std::string& name : DevicesOf(slot, host)) {
      const auto number = std::find(host.devices.begin(), host.devices.end(), name);
      const std::string label = absl::StrCat("GPU ", number - host.devices.begin());
      const bool by_uuid = name.find('-') != name.npos;
      by_slot[slot].push_back({name, by_uuid ? absl::StrCat(label, " (", name, ")") : label});
    }
  }
  return by_slot;
}

// The path without links, or as it is.
std::string RealPathOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

AgentOptions OptionsFrom(const WorkerFlags& flags, const std::string& state_dir,
                         const std::string& credential_dir, const ReservedPorts& ports,
                         DrainEnd& drain_end) {
  return {
      .name = flags.name,
      .host_name = HostName(),
      .slots = flags.slots,
      .ports = ports.numbers(),
      .labels = LabelsFrom(flags),
      .state_dir = state_dir,
      .spool_bytes_max = flags.spool_bytes_max,
      .rank_host = {.coordinator = flags.coordinator,
                    .credential_dir = credential_dir,
                    // A link to it may be hidden by a private /tmp.
                    .trainer = flags.private_tmp ? RealPathOf(flags.trainer) : flags.trainer,
                    .environment = flags.pass_all_env
                                       ? Variables()
                                       : PassedVariables(Variables(), flags.pass_env),
                    .facts = {.slots = flags.slots, .devices = flags.gpus},
                    .accept_other_users = flags.credentials.accept_other_users,
                    .new_privileges = flags.new_privileges},
      .address = [flags]() -> absl::StatusOr<std::string> {
        if (!flags.address.empty()) return flags.address;
        return LocalAddressTowards(flags.coordinator);
      },
      .on_registered =
          [flags, &drain_end](const std::string& name) {
            if (!flags.undrain.empty()) drain_end.Begin(name);
            std::printf("dp-worker %s registered with %s (slots=%d)\n", name.c_str(),
                        flags.coordinator.c_str(), flags.slots);
            std::fflush(stdout);
          },
      .slot_devices = SlotDevicesOf({.slots = flags.slots, .devices = flags.gpus}),
      .device_limits = {.free_bytes_max = int64_t{flags.gpu_free_mib} << 20,
                        .patience = absl::Seconds(flags.gpu_free_within_s)},
      .gpu_health = {.uncorrected_errors_max = flags.gpu_errors_max},
      .oom_kills = [cgroup = flags.cgroup] { return CountOomKills(cgroup, "/proc"); },
      .seed = EntropySeed(),
  };
}

// Empty if no slot has a GPU.
CudaTrainer CudaTrainerOf(const WorkerFlags& flags) {
  if (flags.gpus.empty()) return {};
  CudaTrainer found = FindCudaTrainer(flags.trainer, kSelfCheckPatience);
  Log(found.path.empty() ? Severity::kWarning : Severity::kInfo, "cuda_trainer",
      {{"path", found.path}, {"why_not", found.why_not}});
  return found;
}

IdentityFlags IdentityOf(const WorkerFlags& flags) {
  return {.credentials = flags.credentials,
          .join = flags.join,
          .applicant = {.worker = flags.name, .host = HostName()}};
}

// Empty stands for calls in plain text.
absl::StatusOr<client::Credentials> CredentialsIn(const std::string& dir) {
  if (dir.empty()) return client::Credentials::Insecure();
  return client::Credentials::FromDir(dir);
}

// Readies a daemon whose ranks are other users for them: they reach their files, and the daemon
// keeps no more rights than it needs. Programs that ranks may execute with privileges, or root's
// jobs, need all rights that the host's administrator left.
absl::Status OpenToRanks(const WorkerFlags& flags, const RunAs& run_as, const StateDir& state_dir) {
  const bool mounts = flags.private_tmp || flags.read_only_root;
  if (run_as.kind == RunAs::Kind::kAccount) {
    DP_RETURN_IF_ERROR(CheckFixedAccount(run_as, FindAccount(run_as.account)));
  }
  if (!run_as.changes_user()) {
    if (!flags.new_privileges) DropAmbientCapabilities();
    return absl::OkStatus();
  }
  DP_RETURN_IF_ERROR(state_dir.OpenToOtherUsers());
  if (run_as.allow_root || flags.new_privileges) return absl::OkStatus();
  return KeepNeededCapabilities(mounts);
}

// Whether everybody who may submit jobs to this worker can become administrator.
bool RanksCanAdminister(const WorkerFlags& flags, const RunAs& run_as) {
  if (run_as.changes_user() || flags.credentials.insecure) return false;
  const std::string admin = ReadableAdmin(flags.coordinator, flags.credentials.dir);
  if (admin.empty()) return false;
  Log(Severity::kWarning, "ranks_can_administer",
      {{"credential", admin},
       {"reason", "ranks run as this user, who can read an administrator's credential"},
       {"remedy",
        "before others submit jobs, run dp-worker as an account of its own, or as root "
        "(--run-as)"}});
  return true;
}

Sandbox SandboxFrom(const WorkerFlags& flags, const CudaTrainer& cuda_trainer) {
  Sandbox sandbox{.private_tmp = flags.private_tmp,
                  .read_only_root = flags.read_only_root,
                  .writable = flags.writable,
                  .allowed_programs = flags.allow_program};
  for (const std::string& trainer : {flags.trainer, cuda_trainer.path}) {
    if (!trainer.empty()) sandbox.shown.push_back(RealPathOf(trainer));
  }
  return sandbox;
}

// Tries the mounts of ranks. Returns their private directories, also without the option if an
// earlier daemon has left some; else null. Errors: those of CheckMounts.
absl::StatusOr<std::unique_ptr<PrivateTmps>> OpenSandbox(const Sandbox& sandbox,
                                                         const std::string& state_dir,
                                                         const RunAs& run_as,
                                                         std::function<bool()> earlier_gone) {
  std::error_code error;
  std::unique_ptr<PrivateTmps> tmps;
  if (sandbox.private_tmp || std::filesystem::exists(state_dir + kPrivateTmpsName, error)) {
    tmps = std::make_unique<PrivateTmps>(state_dir, std::move(earlier_gone));
  }
  DP_RETURN_IF_ERROR(CheckMounts(ProgramDir() / "dp-guard", sandbox,
                                 sandbox.private_tmp ? tmps.get() : nullptr, state_dir,
                                 run_as.changes_user()));
  return tmps;
}

absl::Status Serve(const WorkerFlags& flags, const RunAs& run_as, NotifySocket& notify) {
  if (!flags.address.empty()) DP_RETURN_IF_ERROR(CheckOwnAddress(flags.address));
  DP_ASSIGN_OR_RETURN(
      const StateDir state_dir,
      StateDir::Open(flags.state_dir, flags.coordinator, flags.credentials.accept_other_users));
  IncarnationRecord incarnations(state_dir.path(), BootId());
  DP_ASSIGN_OR_RETURN(GuardLock guard_lock, GuardLock::Open(state_dir.path()));
  DP_ASSIGN_OR_RETURN(const ReservedPorts ports, ReservedPorts::Reserve(flags.slots));
  // The following three may use rights that the daemon then drops: to read systemd's marks of
  // cgroups, and to load a driver.
  DP_ASSIGN_OR_RETURN(const auto cgroups, OpenProcessTracking(flags.process_tracking));
  CudaTrainer cuda_trainer = CudaTrainerOf(flags);
  DP_ASSIGN_OR_RETURN(const Sandbox sandbox, WithRealPaths(SandboxFrom(flags, cuda_trainer)));
  DP_RETURN_IF_ERROR(OpenToRanks(flags, run_as, state_dir));
  // Asked by the lease's thread and by that of the private directories.
  Mutex earlier_mu;
  const auto earlier_gone = [&earlier_mu, &guard_lock, &cgroups] {
    const MutexLock lock(earlier_mu);
    return guard_lock.EarlierGuardsGone() && (cgroups == nullptr || cgroups->EarlierGone());
  };
  Mailbox mailbox;
  client::Pause joining;
  ShutdownSignals signals(mailbox, [&joining] { joining.Stop(); });
  DP_ASSIGN_OR_RETURN(const auto private_tmps,
                      OpenSandbox(sandbox, state_dir.path(), run_as, earlier_gone));
  // The daemon is healthy while its coordinator is away: it waits, and reports that it waits.
  notify.Ready("waiting for the coordinator " + flags.coordinator);
  const auto credential_dir =
      OpenCredential(flags.coordinator, state_dir.path(), IdentityOf(flags), joining,
                     [&notify] { notify.Alive(Clock::Steady().Now()); });
  if (absl::IsCancelled(credential_dir.status())) return absl::OkStatus();
  DP_RETURN_IF_ERROR(credential_dir.status());
  DP_ASSIGN_OR_RETURN(const client::Credentials credentials, CredentialsIn(*credential_dir));
  client::Connection connection(flags.coordinator, credentials);
  CertificateRenewal renewal(connection, *credential_dir, state_dir.path());
  RankProcesses processes;
  StoreEndpoints stores(
      connection, EntropySeed(),
      [&mailbox](JobId job, Generation generation) {
        mailbox.Tell(GenerationOver{job, generation});
      },
      flags.store_any_user ? nullptr : &processes);
  // Read before the daemon raises its own limit for connections to its stores.
  const size_t descriptors_of_ranks = DescriptorLimitFor(kRankDescriptors);
  RaiseDescriptorLimit();
  GuardedRunner runner(
      ProgramDir() / "dp-guard", [&mailbox](ProcessNews news) { mailbox.Tell(std::move(news)); },
      descriptors_of_ranks, cgroups.get(), Clock::Steady(), guard_lock.fd(), &processes);
  DrainEnd drain_end(connection, flags.undrain, Clock::Steady(), EntropySeed());
  AgentOptions options = OptionsFrom(flags, state_dir.path(), *credential_dir, ports, drain_end);
  ListenerProbe probe(flags.coordinator);
  options.coordinator_probe = &probe;
  const auto device_memory = flags.gpus.empty() ? nullptr : OpenDeviceMemory(flags.nvml_fault);
  options.device_memory = device_memory.get();
  const auto gpus = flags.gpus.empty()
                        ? nullptr
                        : OpenGpuReader(GpuInventorySources().driver_dir, flags.nvml_fault);
  options.gpus = gpus.get();
  options.rank_host.cuda_trainer = std::move(cuda_trainer.path);
  options.rank_host.no_cuda_trainer = std::move(cuda_trainer.why_not);
  options.rank_host.sandbox = sandbox;
  options.process_tracking = cgroups == nullptr ? "guard" : cgroups->hierarchy();
  options.incarnations = &incarnations;
  options.earlier_gone = earlier_gone;
  options.private_tmps = sandbox.private_tmp ? private_tmps.get() : nullptr;
  if (cgroups == nullptr || !cgroups->limits_memory()) options.labels[kNoMemoryLimit] = "";
  if (RanksCanAdminister(flags, run_as)) options.labels[kAdminReadable] = "";
  options.stores = &stores;
  options.notify = &notify;
  std::optional<AccountLookup> accounts;
  if (run_as.changes_user()) {
    accounts.emplace(FindAccount, [&mailbox](const std::string& name, auto account) {
      mailbox.Tell(AccountFound{name, std::move(account)});
    });
  }
  options.run_as = run_as;
  options.ask_account = [&accounts](const std::string& name) { accounts->Ask(name); };
  Agent agent(std::move(options), connection, runner, mailbox, Clock::Steady());
  const absl::Status status = agent.Run();
  connection.CancelAll();
  return status;
}

int UsageError(const absl::Status& status) {
  std::fprintf(stderr, "dp-worker: %s\n", std::string(status.message()).c_str());
  return kUsageError;
}

int Main(int argc, char** argv) {
  NotifySocket notify = NotifySocket::TakeFromEnvironment();
  WorkerFlags flags;
  flags.trainer = ProgramDir() / "dp-trainer";
  flags.cgroup = OwnCgroupPaths()[kCgroup2];
  const std::vector<std::string> words = TakeArguments(argc, argv, "--join");
  std::vector<const char*> line;
  for (const std::string& word : words) line.push_back(word.c_str());
  if (const auto exit_code = ReadCommandLine(argc, line.data(), &flags)) return *exit_code;
  // A rank starts it from a directory of its own.
  flags.trainer = std::filesystem::absolute(flags.trainer).string();
  ForgetVariable("DP_JOIN_TOKEN");
  if (!flags.list_nvml.empty()) return ListNvml(flags.list_nvml);
  if (flags.list_gpus) return ListGpus();
  if (flags.list_devices) return ListDevices();
  const absl::StatusOr<RunAs> run_as = RunAsFrom(flags.run_as, flags.allow_root, geteuid());
  if (!run_as.ok()) return UsageError(run_as.status());
  ForbidCoreDumps();  // ranks of the same user must not read tokens and secrets
  FindGpusHere(&flags);
  if (flags.slots == 0) flags.slots = DefaultSlots(flags.gpus);
  signal(SIGPIPE, SIG_IGN);
  client::SilenceGrpcLog();
  // Orphans of a killed guard become children of this process, which kills them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const absl::Status tls = security::RequireTls13();
  const absl::Status status = tls.ok() ? Serve(flags, *run_as, notify) : tls;
  if (status.ok()) return 0;
  std::fprintf(stderr, "dp-worker: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace dp::worker

int main(int argc, char** argv) { return dp::worker::Main(argc, argv); }
