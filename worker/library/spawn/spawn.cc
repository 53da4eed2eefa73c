#include "dp/spawn.h"

#include <signal.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dp/distributed.h"
#include "worker/library/dist_error.h"
#include "worker/library/spawn/rank_place.h"
#include "worker/library/spawn/spawned_ranks.h"

// Part of the thread sanitizer, which adds a thread of its own to a program that has others.
extern "C" __attribute__((weak)) void __tsan_init();  // NOLINT: the sanitizer's name

namespace dp::distributed {
namespace {

[[noreturn]] void RejectSpawn(const std::string& why) {
  throw DistError(ErrorKind::kWrongState, absl::StrCat("spawn: ", why));
}

// 1 where /proc is not mounted, as in a bare container: then the caller has to know.
int64_t ThreadsOfProcess() {
  std::error_code error;
  std::filesystem::directory_iterator tasks("/proc/self/task", error);
  if (error) return 1;
  return std::distance(begin(tasks), end(tasks)) - (__tsan_init != nullptr ? 1 : 0);
}

// A process that ignores SIGCHLD gets no exit statuses.
bool IgnoresEndsOfChildren() {
  struct sigaction action {};
  sigaction(SIGCHLD, nullptr, &action);
  return action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0;
}

void CheckThisProcess(const SpawnOptions& options) {
  if (is_initialized())
    RejectSpawn(
        "this process is a rank of a default process group, whose connections its children would "
        "share; call spawn before init_process_group");
  if (IgnoresEndsOfChildren())
    RejectSpawn("SIGCHLD is ignored, so nobody would learn how a rank ends; set it to SIG_DFL");
  const int64_t threads = ThreadsOfProcess();
  if (threads > 1 && !options.allow_threads)
    RejectSpawn(absl::StrCat(
        "this process has ", threads, " threads, and a child has only the one that forks; call ",
        "spawn before threads start, start the ranks by dpctl run, or set allow_threads if the ",
        "ranks need no lock and no pool of other threads"));
}

library::SpawnedRanks& RanksIn(const std::unique_ptr<library::SpawnedRanks>& ranks) {
  if (ranks != nullptr) return *ranks;
  RejectSpawn(
      "the SpawnContext was moved from and has no ranks; ask the SpawnContext that it moved to");
}

}  // namespace

SpawnContext::SpawnContext(std::unique_ptr<library::SpawnedRanks> ranks)
    : ranks_(std::move(ranks)) {}
SpawnContext::SpawnContext(SpawnContext&&) noexcept = default;
SpawnContext& SpawnContext::operator=(SpawnContext&&) noexcept = default;
SpawnContext::~SpawnContext() = default;

bool SpawnContext::join(std::optional<std::chrono::milliseconds> timeout) {
  return RanksIn(ranks_).Join(timeout);
}
std::vector<int> SpawnContext::pids() const { return RanksIn(ranks_).pids(); }

SpawnContext spawn(const std::function<void(int rank)>& fn, int nprocs,
                   const SpawnOptions& options) {
  if (!fn) throw DistError(ErrorKind::kInvalidArgument, "spawn: fn is empty; give a function");
  library::OrThrow(library::CheckSpawnOptions(options, nprocs), library::ErrorSource::kCaller);
  CheckThisProcess(options);
  SpawnContext context(std::make_unique<library::SpawnedRanks>(fn, nprocs, options));
  if (options.join) context.join();
  return context;
}

}  // namespace dp::distributed
