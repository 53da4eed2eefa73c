#include "worker/agent/launch/launch_environment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "proto/convert/time.h"
#include "proto/job/job_spec.h"

namespace dp::worker {
namespace {

// PyTorch's watchdog may hang this long while it loads or compiles, whatever the job asks for.
// PyTorch itself checks the watchdog after 8 minutes at the latest.
constexpr absl::Duration kWatchdogStuckMin = absl::Minutes(1);
constexpr absl::Duration kWatchdogStuckMax = absl::Minutes(8);
// The longest that an aborting process may spend on a dump of its collectives.
constexpr absl::Duration kDumpMax = absl::Seconds(15);

// The macro of torch.distributed.launch in a rank's command line.
constexpr char kLocalRankMacro[] = "${local_rank}";
// torchrun's default of --signals-to-handle, which torchrun passes on to its workers.
constexpr char kTorchrunSignals[] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

// A rank's place among all.
struct Position {
  int group = 0;  // which host of the generation, from 0
  int local_rank = 0;
  int local_size = 0;
  const v1::HostRanks* host = nullptr;
};

// Precondition: `rank.hosts` holds the rank.
Position PositionOf(const v1::AssignedRank& rank) {
  Position at{.local_rank = rank.local_rank()};
  int first = 0;
  for (const v1::HostRanks& host : rank.hosts()) {
    at.host = &host;
    at.local_size = host.slots_size();
    if (rank.rank() < first + host.slots_size()) break;
    first += host.slots_size();
    ++at.group;
  }
  return at;
}

// Puts an IPv6 address in brackets.
std::string HostAndPort(const std::string& host, int port) {
  const bool v6 = host.find(':') != host.npos;
  return v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

int PortAt(const v1::HostRanks& host, int local_rank) {
  return local_rank < host.ports_size() ? host.ports(local_rank) : 0;
}

// The devices of all the job's ranks on this host. The first ones follow the order of the local
// ranks. LOCAL_RANK is thus the number of a rank's own device, as programs for torchrun expect.
std::vector<std::string> DevicesOfJob(const Position& at, const HostFacts& host) {
  std::vector<std::string> devices;
  for (size_t turn = 0; turn * host.slots < host.devices.size(); ++turn) {
    for (const int slot : at.host->slots()) {
      const size_t device = turn * host.slots + slot;
      if (device < host.devices.size()) devices.push_back(host.devices[device]);
    }
  }
  return devices;
}

// RANK and its friends, which every contract sets.
Environment Plain(const v1::AssignedRank& rank, const Position& at, const StoreEndpoint& store) {
  const bool alone = rank.spec().command().virtual_local_rank();
  return {{"RANK", absl::StrCat(rank.rank())},
          {"WORLD_SIZE", absl::StrCat(rank.world_size())},
          {"LOCAL_RANK", absl::StrCat(alone ? 0 : at.local_rank)},
          {"LOCAL_WORLD_SIZE", absl::StrCat(at.local_size)},
          {"GROUP_RANK", absl::StrCat(at.group)},
          {"GROUP_WORLD_SIZE", absl::StrCat(rank.hosts_size())},
          {"MASTER_ADDR", store.host},
          {"MASTER_PORT", absl::StrCat(store.port)},
          {"DP_RANK0_ADDRESS", rank.hosts(0).address()},
          {"DP_RANK0_PORT", absl::StrCat(PortAt(rank.hosts(0), 0))},
          {"DP_PORT", absl::StrCat(PortAt(*at.host, at.local_rank))}};
}

Environment Torchrun(const v1::AssignedRank& rank, const StoreEndpoint& store,
                     const std::string& error_file) {
  return {{"ROLE_NAME", "default"},
          {"ROLE_RANK", absl::StrCat(rank.rank())},
          {"ROLE_WORLD_SIZE", absl::StrCat(rank.world_size())},
          {"TORCHELASTIC_RESTART_COUNT", absl::StrCat(rank.generation() - 1)},
          {"TORCHELASTIC_MAX_RESTARTS", absl::StrCat(rank.spec().command().max_restarts())},
          {"TORCHELASTIC_RUN_ID", absl::StrCat("dp-", rank.job())},
          {"TORCHELASTIC_USE_AGENT_STORE", store.served ? "True" : "False"},
          {"TORCHELASTIC_SIGNALS_TO_HANDLE", kTorchrunSignals},
          {"TORCHELASTIC_ERROR_FILE", error_file}};
}

// {"cluster": {"worker": ["10.0.0.1:4001", ...]}, "task": {"type": "worker", "index": 0}}
Environment Tensorflow(const v1::AssignedRank& rank) {
  std::vector<std::string> workers;
  for (const v1::HostRanks& host : rank.hosts()) {
    for (const int port : host.ports()) {
      workers.push_back(absl::StrCat("\"", HostAndPort(host.address(), port), "\""));
    }
  }
  return {{"TF_CONFIG",
           absl::StrCat("{\"cluster\": {\"worker\": [", absl::StrJoin(workers, ", "),
                        "]}, \"task\": {\"type\": \"worker\", \"index\": ", rank.rank(), "}}")}};
}

Environment OpenMpi(const v1::AssignedRank& rank, const Position& at) {
  return {{"OMPI_COMM_WORLD_RANK", absl::StrCat(rank.rank())},
          {"OMPI_COMM_WORLD_SIZE", absl::StrCat(rank.world_size())},
          {"OMPI_COMM_WORLD_LOCAL_RANK", absl::StrCat(at.local_rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", absl::StrCat(at.local_size)},
          {"OMPI_COMM_WORLD_NODE_RANK", absl::StrCat(at.local_rank)}};
}

Environment Pmi(const v1::AssignedRank& rank, const Position& at) {
  return {{"PMI_RANK", absl::StrCat(rank.rank())},
          {"PMI_SIZE", absl::StrCat(rank.world_size())},
          {"PMI_LOCAL_RANK", absl::StrCat(at.local_rank)},
          {"PMI_LOCAL_SIZE", absl::StrCat(at.local_size)},
          {"MPI_LOCALRANKID", absl::StrCat(at.local_rank)},
          {"MPI_LOCALNRANKS", absl::StrCat(at.local_size)}};
}

// jax.distributed.initialize() without arguments takes the address from its own variable, and the
// rest from a launcher that it knows. It assumes Open MPI if the address of Open MPI's daemon is
// set, and does not use that address.
Environment Jax(const v1::AssignedRank& rank, const Position& at, const HostFacts& host) {
  const std::string rank0 = HostAndPort(rank.hosts(0).address(), PortAt(rank.hosts(0), 0));
  Environment environment = OpenMpi(rank, at);
  environment["OMPI_MCA_orte_hnp_uri"] = absl::StrCat("0.0;tcp://", rank0);
  environment["JAX_COORDINATOR_ADDRESS"] = rank0;
  environment["JAX_NUM_PROCESSES"] = absl::StrCat(rank.world_size());
  environment["JAX_PROCESS_ID"] = absl::StrCat(rank.rank());
  if (!host.devices.empty()) {
    environment["JAX_LOCAL_DEVICE_IDS"] = absl::StrCat(at.local_rank);
  }
  return environment;
}

// Compute threads of a rank; 0: the program decides. If the job sets none, torchrun's rule holds: 1
// for ranks that share a host.
int ThreadsOf(const v1::AssignedRank& rank) {
  if (rank.spec().threads_per_rank() > 0) return rank.spec().threads_per_rank();
  return PositionOf(rank).local_size > 1 ? 1 : 0;
}

// How long PyTorch waits, as far as variables can set that (docs/command-jobs.md). Only for a job
// that chooses its detectWithin: a program may wait for long on purpose.
Environment PatienceOf(const v1::AssignedRank& rank) {
  const absl::Duration within = FromProto(rank.spec().detect_within());
  if (!rank.spec().has_detect_within() || within == kDetectWithinDefault) return {};
  Environment environment{{"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
                           absl::StrCat(absl::ToInt64Milliseconds(std::min(within, kDumpMax)))}};
  if (within < kWatchdogStuckMax) {
    environment["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] =
        absl::StrCat(absl::ToInt64Seconds(std::max(within, kWatchdogStuckMin)));
  }
  return environment;
}

}  // namespace

std::vector<std::string> ArgvOf(const v1::AssignedRank& rank) {
  const v1::CommandSpec& command = rank.spec().command();
  std::vector<std::string> argv(command.argv().begin(), command.argv().end());
  if (command.contract() != "launch") return argv;
  const int local_rank = command.virtual_local_rank() ? 0 : rank.local_rank();
  for (std::string& word : argv) {
    word = absl::StrReplaceAll(word, {{kLocalRankMacro, absl::StrCat(local_rank)}});
  }
  return argv;
}

std::vector<std::string> DevicesOf(int slot, const HostFacts& host) {
  std::vector<std::string> devices;
  for (size_t i = slot; i < host.devices.size(); i += host.slots) {
    devices.push_back(host.devices[i]);
  }
  return devices;
}

absl::StatusOr<StoreEndpoint> EndpointAtRank0(const v1::AssignedRank& rank) {
  if (rank.hosts().empty() || PortAt(rank.hosts(0), 0) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", rank.job(),
                     ": the worker of rank 0 keeps no port for it; is it of an "
                     "older release?"));
  }
  return StoreEndpoint{.host = rank.hosts(0).address(), .port = PortAt(rank.hosts(0), 0)};
}

Environment PlaceOf(const v1::AssignedRank& rank, const HostFacts& host, const StoreEndpoint& store,
                    const std::string& error_file) {
  const std::string& contract = rank.spec().command().contract();
  const Position at = PositionOf(rank);
  Environment environment = Plain(rank, at, store);
  if (MeetsAtStore(rank.spec().command())) environment.merge(Torchrun(rank, store, error_file));
  if (contract == "tensorflow") environment.merge(Tensorflow(rank));
  if (contract == "jax") environment.merge(Jax(rank, at, host));
  if (contract == "mpi") {
    environment.merge(OpenMpi(rank, at));
    environment.merge(Pmi(rank, at));
  }
  if (host.devices.empty()) return environment;
  // A TensorFlow worker takes every device that it sees.
  const bool own_alone = contract == "tensorflow" || rank.spec().command().virtual_local_rank();
  environment["CUDA_VISIBLE_DEVICES"] =
      absl::StrJoin(own_alone ? DevicesOf(rank.slot(), host) : DevicesOfJob(at, host), ",");
  return environment;
}

Environment LaunchDefaults(const v1::AssignedRank& rank, const HostFacts& host) {
  Environment environment{{"PYTHONUNBUFFERED", "1"}};
  if (const int threads = ThreadsOf(rank); threads > 0) {
    environment["OMP_NUM_THREADS"] = absl::StrCat(threads);
  }
  if (!host.interface.empty()) {
    environment["NCCL_SOCKET_IFNAME"] = host.interface;
    environment["GLOO_SOCKET_IFNAME"] = host.interface;
  }
  if (MeetsAtStore(rank.spec().command())) {
    environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
    environment["NCCL_ASYNC_ERROR_HANDLING"] = "1";  // its name until PyTorch 2.2
    environment.merge(PatienceOf(rank));
  }
  return environment;
}

}  // namespace dp::worker
