#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "dp/distributed.h"
#include "worker/library/backend.h"
#include "worker/library/dist_error.h"
#include "worker/library/init_method.h"
#include "worker/library/joined_group.h"
#include "worker/library/meeting.h"
#include "worker/library/mpi/mpi_meeting.h"

namespace dp::distributed {
namespace {

using library::ErrorSource;
using library::JoinedGroup;
using library::Meeting;

// The default group, and those made of its ranks. torch.distributed's calls name no group, so this
// is the library's one global state.
struct Registry {
  Mutex mu;
  ProcessGroup default_group DP_GUARDED_BY(mu);
  std::vector<ProcessGroup> made DP_GUARDED_BY(mu);
};

Registry& TheRegistry() {
  static Registry registry;  // destroyed at exit, so that peers do not wait for this rank
  return registry;
}

std::shared_ptr<JoinedGroup> Join(const InitOptions& options) {
  const library::NcclPlace nccl{options.device, options.stream};
  const std::string backend =
      library::OrThrow(library::BackendNamed(options.backend, nccl), ErrorSource::kCaller);
  library::CheckTimeout(absl::FromChrono(options.timeout),
                        absl::StrCat("group '", options.group_name, "'"));
  const library::Variables variables = library::VariablesOfProcess();
  if (backend == "nccl")
    library::OrThrow(library::PrepareNccl(nccl, variables), ErrorSource::kCaller);
  const auto join = [&](const std::shared_ptr<library::OpenStore>& store, int rank,
                        int world_size) {
    return JoinedGroup::Join(store, {.name = options.group_name,
                                     .backend = backend,
                                     .rank = rank,
                                     .size = world_size,
                                     .timeout = absl::FromChrono(options.timeout),
                                     .global_ranks = {},
                                     .nccl = nccl});
  };
  if (library::MeetsByMpi(backend, options, variables)) {
    const library::MpiMeeting met =
        library::OrThrow(library::OpenMpiMeeting(options, variables), ErrorSource::kStore);
    return join(met.store, met.rank, met.world_size);
  }
  const Meeting meeting =
      library::OrThrow(library::ReadMeeting(options, variables), ErrorSource::kCaller);
  return join(library::OrThrow(library::OpenMeeting(options, meeting), ErrorSource::kStore),
              meeting.rank, meeting.world_size);
}

}  // namespace

ProcessGroup::ProcessGroup(const InitOptions& options) : joined_(Join(options)) {}

int ProcessGroup::rank() const { return joined_ ? joined_->options().rank : -1; }
int ProcessGroup::size() const { return joined_ ? joined_->options().size : -1; }
std::string ProcessGroup::backend() const { return library::MemberOf(*this).backend(); }
std::string ProcessGroup::name() const { return library::MemberOf(*this).options().name; }
void ProcessGroup::abort(std::string_view why) const {
  library::MemberOf(*this).Abort({why.data(), why.size()});
}

void init_process_group(const InitOptions& options) {
  Registry& registry = TheRegistry();
  if (is_initialized()) {
    throw DistError(ErrorKind::kWrongState,
                    "the default process group exists already; call destroy_process_group first");
  }
  ProcessGroup group(options);  // without the lock, because it waits for peers
  MutexLock lock(registry.mu);
  registry.default_group = std::move(group);
}

bool is_initialized() {
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mu);
  // A fork has the handle of the process before it, and may join a group of its own.
  return registry.default_group && !registry.default_group.joined()->in_fork();
}

ProcessGroup default_group() {
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mu);
  if (registry.default_group) return registry.default_group;
  throw DistError(ErrorKind::kWrongState,
                  "there is no default process group; call init_process_group first");
}

ProcessGroup new_group(std::span<const int> ranks, std::string_view backend,
                       std::optional<std::chrono::milliseconds> timeout) {
  const ProcessGroup all = default_group();
  JoinedGroup& base = *all.joined();
  const ProcessGroup made(
      base.MakeGroup({ranks.begin(), ranks.end()}, {backend.data(), backend.size()},
                     timeout ? absl::FromChrono(*timeout) : base.options().timeout));
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mu);
  if (made) registry.made.push_back(made);
  return made;
}

void destroy_process_group() {
  Registry& registry = TheRegistry();
  ProcessGroup all;
  std::vector<ProcessGroup> made;
  {
    MutexLock lock(registry.mu);
    all = std::exchange(registry.default_group, {});
    made = std::exchange(registry.made, {});
  }
  for (const ProcessGroup& group : made) group.joined()->Leave();
  if (all) all.joined()->Leave();
}

void destroy_process_group(ProcessGroup group) {
  Registry& registry = TheRegistry();
  bool is_default = false;
  {
    MutexLock lock(registry.mu);
    is_default = group && group.joined() == registry.default_group.joined();
    std::erase_if(registry.made, [&](const auto& each) { return each.joined() == group.joined(); });
  }
  if (is_default) return destroy_process_group();
  if (group) group.joined()->Leave();
}

int get_rank(const ProcessGroup& group) { return group.rank(); }
int get_world_size(const ProcessGroup& group) { return group.size(); }
std::string get_backend(const ProcessGroup& group) { return group.backend(); }

bool is_available() { return true; }
bool is_shm_available() { return true; }
bool is_gloo_available() { return DP_HAS_GLOO; }
bool is_nccl_available() { return DP_HAS_NCCL; }
bool is_mpi_available() { return DP_HAS_MPI; }

}  // namespace dp::distributed
