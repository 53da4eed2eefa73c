#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/no_memory_limit.h"
#include "base/program/descriptor_limit.h"
#include "base/program/log.h"
#include "base/program/notify_socket.h"
#include "base/random.h"
#include "base/status.h"
#include "base/variable_pattern.h"
#include "base/version.h"
#include "client/connection.h"
#include "worker/agent/agent.h"
#include "worker/agent/cuda_trainer.h"
#include "worker/agent/drain_end.h"
#include "worker/agent/gpus/gpu_reader.h"
#include "worker/agent/gpus/gpus.h"
#include "worker/agent/incarnation_record.h"
#include "worker/agent/launch/passed_variables.h"
#include "worker/agent/local_address.h"
#include "worker/agent/processes/guard_lock.h"
#include "worker/agent/processes/guarded_runner.h"
#include "worker/agent/processes/oom_kills.h"
#include "worker/agent/processes/rank_cgroups.h"
#include "worker/agent/shutdown_signals.h"
#include "worker/agent/state_dir.h"
#include "worker/agent/stores/listener_probe.h"
#include "worker/agent/stores/reserved_ports.h"
#include "worker/agent/stores/store_endpoints.h"

namespace dp::worker {
namespace {

constexpr int kUsageError = 2;
// The self-check opens the GPU. A driver that hangs must not keep the daemon from its other jobs.
constexpr absl::Duration kSelfCheckPatience = absl::Seconds(60);

struct Flags {
  std::string coordinator = "127.0.0.1:7070";
  int slots = 0;  // 0: not given
  std::string name;
  std::string address;
  std::string state_dir;
  uint64_t spool_bytes_max = kSpoolBytesMax;
  std::string trainer;
  std::vector<std::string> labels;
  std::vector<std::string> pass_env;
  bool pass_all_env = false;
  bool store_any_user = false;
  bool new_privileges = false;
  std::string undrain;  // ends the drain with this reason; empty: none
  std::string process_tracking = "auto";
  int gpu_free_mib = 512;
  int gpu_free_within_s = 30;
  int64_t gpu_errors_max = 0;
  bool list_gpus = false;
  std::string list_nvml;          // the library; empty: not given
  std::string cgroup;             // the daemon's own at its start (v2); empty: none
  std::vector<std::string> gpus;  // found on this host, not a flag
  std::string nvml_fault;         // as in GpuInventory
};

// The directory of this program and of its companions.
std::filesystem::path ProgramDir() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

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

// Rejects two values for one key, because one would be dropped. Throws like CLI11's own checks.
void CheckLabelKeys(const Flags& flags) {
  std::set<std::string> keys;
  for (const std::string& text : flags.labels) {
    const Label label = *ParseLabel(text);  // already checked
    if (keys.insert(label.key).second) continue;
    throw CLI::ValidationError("--label", absl::StrCat("the key ", label.key, " is given twice"));
  }
}

// Returns the exit code if there is nothing to run.
std::optional<int> ParseFlags(int argc, char** argv, Flags* flags) {
  CLI::App app(
      "Runs the ranks that the coordinator assigns to this host.\n\n"
      "Example: dp-worker --coordinator 10.0.0.1:7070 --slots 2\n");
  app.add_option("--coordinator", flags->coordinator, "HOST:PORT of the coordinator")
      ->envname("DP_COORDINATOR")
      ->check(WhyNoHostPort)
      ->capture_default_str();
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
  app.add_flag("--new-privileges", flags->new_privileges,
               "let setuid programs, such as sudo, give ranks their privileges");
  app.add_flag("--store-any-user", flags->store_any_user,
               "serve ranks' stores to processes of any user of this host, as for ranks in "
               "containers that have users of their own; default: only of this daemon's user");
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
  return std::nullopt;
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

// The process must not outlive a daemon that is killed meanwhile.
int ListNvml(const std::string& library) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::fputs(NvmlLines(ListByNvml(library)).c_str(), stdout);
  return 0;
}

void FindGpusHere(Flags* flags) {
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

Labels LabelsFrom(const Flags& flags) {
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

AgentOptions OptionsFrom(const Flags& flags, const std::string& state_dir,
                         const ReservedPorts& ports, DrainEnd& drain_end) {
  return {
      .name = flags.name,
      .host_name = HostName(),
      .slots = flags.slots,
      .ports = ports.numbers(),
      .labels = LabelsFrom(flags),
      .state_dir = state_dir,
      .spool_bytes_max = flags.spool_bytes_max,
      .rank_host = {.coordinator = flags.coordinator,
                    .trainer = flags.trainer,
                    .environment = flags.pass_all_env
                                       ? Variables()
                                       : PassedVariables(Variables(), flags.pass_env),
                    .facts = {.slots = flags.slots, .devices = flags.gpus},
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
CudaTrainer CudaTrainerOf(const Flags& flags) {
  if (flags.gpus.empty()) return {};
  CudaTrainer found = FindCudaTrainer(flags.trainer, kSelfCheckPatience);
  Log(found.path.empty() ? Severity::kWarning : Severity::kInfo, "cuda_trainer",
      {{"path", found.path}, {"why_not", found.why_not}});
  return found;
}

absl::Status Serve(const Flags& flags, NotifySocket& notify) {
  if (!flags.address.empty()) DP_RETURN_IF_ERROR(CheckOwnAddress(flags.address));
  DP_ASSIGN_OR_RETURN(const StateDir state_dir, StateDir::Open(flags.state_dir, flags.coordinator));
  IncarnationRecord incarnations(state_dir.path(), BootId());
  DP_ASSIGN_OR_RETURN(GuardLock guard_lock, GuardLock::Open(state_dir.path()));
  DP_ASSIGN_OR_RETURN(const ReservedPorts ports, ReservedPorts::Reserve(flags.slots));
  Mailbox mailbox;
  ShutdownSignals signals(mailbox);
  client::Connection connection(flags.coordinator);
  StoreEndpoints stores(
      connection, EntropySeed(),
      [&mailbox](JobId job, Generation generation) {
        mailbox.Tell(GenerationOver{job, generation});
      },
      flags.store_any_user);
  // Read before the daemon raises its own limit for connections to its stores.
  const size_t descriptors_of_ranks = DescriptorLimitFor(kRankDescriptors);
  RaiseDescriptorLimit();
  DP_ASSIGN_OR_RETURN(const auto cgroups, OpenProcessTracking(flags.process_tracking));
  GuardedRunner runner(
      ProgramDir() / "dp-guard", [&mailbox](ProcessNews news) { mailbox.Tell(std::move(news)); },
      descriptors_of_ranks, cgroups.get(), Clock::Steady(), guard_lock.fd());
  DrainEnd drain_end(connection, flags.undrain, Clock::Steady(), EntropySeed());
  AgentOptions options = OptionsFrom(flags, state_dir.path(), ports, drain_end);
  ListenerProbe probe(flags.coordinator);
  options.coordinator_probe = &probe;
  const auto device_memory = flags.gpus.empty() ? nullptr : OpenDeviceMemory(flags.nvml_fault);
  options.device_memory = device_memory.get();
  const auto gpus = flags.gpus.empty()
                        ? nullptr
                        : OpenGpuReader(GpuInventorySources().driver_dir, flags.nvml_fault);
  options.gpus = gpus.get();
  CudaTrainer cuda_trainer = CudaTrainerOf(flags);
  options.rank_host.cuda_trainer = std::move(cuda_trainer.path);
  options.rank_host.no_cuda_trainer = std::move(cuda_trainer.why_not);
  options.process_tracking = cgroups == nullptr ? "guard" : cgroups->hierarchy();
  options.incarnations = &incarnations;
  options.earlier_gone = [&guard_lock, &cgroups] {
    return guard_lock.EarlierGuardsGone() && (cgroups == nullptr || cgroups->EarlierGone());
  };
  if (cgroups == nullptr || !cgroups->limits_memory()) options.labels[kNoMemoryLimit] = "";
  options.stores = &stores;
  options.notify = &notify;
  Agent agent(std::move(options), connection, runner, mailbox, Clock::Steady());
  // The daemon is healthy while its coordinator is away: it waits, and reports that it waits.
  notify.Ready("waiting for the coordinator " + flags.coordinator);
  const absl::Status status = agent.Run();
  connection.CancelAll();
  return status;
}

int Main(int argc, char** argv) {
  NotifySocket notify = NotifySocket::TakeFromEnvironment();
  Flags flags;
  flags.trainer = ProgramDir() / "dp-trainer";
  flags.cgroup = OwnCgroupPaths()[kCgroup2];
  if (const auto exit_code = ParseFlags(argc, argv, &flags)) return *exit_code;
  if (!flags.list_nvml.empty()) return ListNvml(flags.list_nvml);
  if (flags.list_gpus) return ListGpus();
  FindGpusHere(&flags);
  if (flags.slots == 0) flags.slots = DefaultSlots(flags.gpus);
  signal(SIGPIPE, SIG_IGN);
  // Orphans of a killed guard become children of this process, which kills them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const absl::Status status = Serve(flags, notify);
  if (status.ok()) return 0;
  std::fprintf(stderr, "dp-worker: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace dp::worker

int main(int argc, char** argv) { return dp::worker::Main(argc, argv); }
