#include "worker/agent/processes/guarded_runner.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/agent/processes/cgroup_paths.h"
#include "worker/agent/processes/process_tree.h"
#include "worker/agent/processes/spawn.h"

namespace dp::worker {
namespace {

// A start and two signals for each of a thousand slots, with room to spare; more is a bug.
constexpr size_t kOrdersMax = 8192;

// The interval between sweeps doubles from the first to the second, while processes do not die.
constexpr absl::Duration kSweepAgainMin = absl::Milliseconds(10);
constexpr absl::Duration kSweepAgainMax = absl::Seconds(1);

std::string AsUser(const RankCommand& command) {
  return command.run_as ? " as " + command.run_as->name : "";
}

// For a directory that the host may well have; empty: that is not why the rank has none.
std::string WhyHidden(absl::string_view directory, bool private_tmp) {
  const bool below =
      absl::StartsWith(directory, "/tmp/") || absl::StartsWith(directory, "/var/tmp/");
  return private_tmp && below
             ? "; each job has a /tmp of its own on this worker (dp-worker --private-tmp)"
             : "";
}

// The guard has closed its socket, so it is exiting and the wait is short. Returns true if the
// guard has left nothing of its rank.
bool EndedWell(pid_t guard) {
  int status = 0;
  return waitpid(guard, &status, 0) == guard && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

GuardedRunner::GuardedRunner(std::string guard_path, Sink sink, size_t descriptors,
                             RankCgroups* cgroups, const Clock& clock, int guard_lock,
                             RankProcesses* processes)
    : guard_path_(std::move(guard_path)),
      descriptors_(descriptors),
      guard_lock_(guard_lock),
      cgroups_(cgroups),
      processes_(processes),
      clock_(clock),
      sink_(std::move(sink)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      orders_(kOrdersMax) {
  DP_CHECK(wake_.valid());
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "runner");
}

GuardedRunner::~GuardedRunner() {
  orders_.Close();
  Wake();
}

void GuardedRunner::Start(const RankKey& key, RankCommand command) {
  Push(StartOrder{key, std::move(command)});
}
void GuardedRunner::Terminate(const RankKey& key) {
  Push(SignalOrder{key, GuardOrder::kTerminate});
}
void GuardedRunner::Kill(const RankKey& key) { Push(SignalOrder{key, GuardOrder::kKill}); }

void GuardedRunner::Push(Order order) {
  DP_CHECK(orders_.TryPush(order));
  Wake();
}

void GuardedRunner::Wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full; the thread then wakes anyway.
  (void)!write(wake_.get(), &one, sizeof(one));
}

void GuardedRunner::Loop() {
  while (!orders_.closed()) {
    for (const Order& order : orders_.DrainFor(absl::ZeroDuration())) {
      std::visit([this](const auto& each) { CarryOut(each); }, order);
    }
    Wait();
  }
  // A guard whose socket closes kills its tree and exits. A stopped guard must run again to do so.
  for (auto& [key, guard] : guards_) {
    guard.socket.Close();
    (void)kill(guard.pid, SIGCONT);
  }
  for (auto& [key, guard] : guards_) {
    const bool orphaned = !EndedWell(guard.pid);
    remains_.push_back(
        {.key = key, .orphaned = orphaned, .since = clock_.Now(), .last = std::nullopt});
  }
  guards_.clear();
  SweepToTheEnd();
}

void GuardedRunner::SweepToTheEnd() {
  const absl::Time deadline = clock_.Now() + kSweepPatience;
  for (Sweep(); !remains_.empty() && clock_.Now() < deadline; Sweep()) {
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kSweepAgainMin)));
  }
}

void GuardedRunner::Wait() {
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
  for (const auto& [key, guard] : guards_) fds.push_back({guard.socket.get(), POLLIN, 0});
  const int64_t again_ms = absl::ToInt64Milliseconds(sweep_again_);
  poll(fds.data(), fds.size(), remains_.empty() ? -1 : static_cast<int>(again_ms));
  uint64_t wakes = 0;
  (void)!read(wake_.get(), &wakes, sizeof(wakes));  // only to reset it
  size_t index = 0;
  for (auto guard = guards_.begin(); guard != guards_.end();) {
    const bool quiet = fds[++index].revents == 0;
    const bool lives = quiet || Listen(guard->first, guard->second);
    if (!lives) Bury(guard->first, guard->second);
    guard = lives ? std::next(guard) : guards_.erase(guard);
  }
  if (!remains_.empty()) Sweep();
}

void GuardedRunner::CarryOut(const StartOrder& order) {
  DP_CHECK(!guards_.contains(order.key));
  absl::StatusOr<SpawnedGuard> spawned = Spawn(order);
  if (!spawned.ok()) {
    if (cgroups_ != nullptr) (void)cgroups_->Remove(order.key);  // it is empty
    if (processes_ != nullptr) processes_->End(order.key);
    sink_({order.key, ProcessNotStarted{std::string(spawned.status().message())}});
    return;
  }
  if (processes_ != nullptr) processes_->BeginUnder(order.key, spawned->pid);
  guards_[order.key] = {.pid = spawned->pid,
                        .socket = std::move(spawned->socket),
                        .program = order.command.argv.front(),
                        .directory = order.command.working_dir,
                        .private_tmp = !order.command.mounts.private_tmp.empty(),
                        .user = AsUser(order.command),
                        .worker = order.command.worker};
}

absl::StatusOr<SpawnedGuard> GuardedRunner::Spawn(const StartOrder& order) {
  Confinement confinement{.descriptors = descriptors_, .guard_lock = guard_lock_, .cgroups = {}};
  if (cgroups_ != nullptr) {
    DP_ASSIGN_OR_RETURN(confinement.cgroups, cgroups_->Create(order.key));
    if (processes_ != nullptr && cgroups_->hierarchy() == kCgroup2) {
      processes_->BeginIn(order.key, confinement.cgroups.front());
    }
  }
  const int64_t memory = order.command.memory_bytes;
  if (memory > 0 && (cgroups_ == nullptr || !cgroups_->LimitMemory(order.key, memory))) {
    Log(Severity::kWarning, "memory_not_limited",
        {{"job", order.key.job.value()}, {"rank", order.key.rank}, {"memory_bytes", memory}});
  }
  return SpawnGuard(guard_path_, confinement, order.command);
}

void GuardedRunner::CarryOut(const SignalOrder& order) {
  const auto guard = guards_.find(order.key);
  if (guard == guards_.end()) return;
  (void)kill(guard->second.pid, SIGCONT);  // a stopped guard would not read the order
  // A guard that has exited meanwhile needs no order.
  (void)!send(guard->second.socket.get(), &order.order, sizeof(order.order), MSG_NOSIGNAL);
}

bool GuardedRunner::Listen(const RankKey& key, Guard& guard) {
  for (;;) {
    GuardMessage message;
    const ssize_t size = recv(guard.socket.get(), &message, sizeof(message), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return true;
    // Reset: the guard has exited without reading an order. Its last news comes after this.
    if (size < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (size < static_cast<ssize_t>(sizeof(GuardNews))) return false;
    Pass(key, guard, message.news, std::string(message.text, size - sizeof(GuardNews)));
  }
}

void GuardedRunner::Pass(const RankKey& key, Guard& guard, const GuardNews& news,
                         const std::string& text) {
  switch (news.what) {
    case GuardNews::What::kStarted:
      guard.rank_started = true;
      sink_({key, ProcessStarted{news.number}});
      return;
    case GuardNews::What::kNotStarted:
      guard.rank_ended = true;
      // A search ends with EACCES also if no directory has the program, and one cannot be entered.
      sink_({key, ProcessNotStarted{absl::StrCat(
                      "cannot run ", guard.program, guard.user, ": ", std::strerror(news.number),
                      news.number == EACCES && !absl::StrContains(guard.program, '/')
                          ? ", or it is in no directory of PATH that the user may enter"
                          : "")}});
      return;
    case GuardNews::What::kNotUser:
      guard.rank_ended = true;
      sink_({key,
             ProcessNotStarted{absl::StrCat("cannot run ", guard.program, guard.user,
                                            ", changing the user: ", std::strerror(news.number))}});
      return;
    case GuardNews::What::kNotInDir:
      guard.rank_ended = true;
      sink_({key, ProcessNotStarted{absl::StrCat(
                      "working directory ", guard.directory, " on this host", guard.user, ": ",
                      std::strerror(news.number), WhyHidden(guard.directory, guard.private_tmp))}});
      return;
    case GuardNews::What::kNotConfined:
      guard.rank_ended = true;
      sink_({key, ProcessNotStarted{absl::StrCat("cannot move ", guard.program,
                                                 " to its cgroup: ", std::strerror(news.number))}});
      return;
    case GuardNews::What::kNotMounted:
      guard.rank_ended = true;
      sink_({key, ProcessNotStarted{absl::StrCat("cannot run ", guard.program, guard.user,
                                                 " with mounts of its own: ", text, ": ",
                                                 std::strerror(news.number))}});
      return;
    case GuardNews::What::kNotAllowed:
      guard.rank_ended = true;
      sink_({key,
             ProcessNotStarted{absl::StrCat(
                 "job ", key.job.value(), ": worker ", guard.worker, " does not allow the program ",
                 guard.program, " (", text,
                 "); choose another program, or start the worker with --allow-program ", text)}});
      return;
    case GuardNews::What::kExited:
    case GuardNews::What::kSignalled: {
      guard.rank_ended = true;
      const bool code = news.what == GuardNews::What::kExited;
      sink_({key, ProcessExited{{code ? Exit::How::kCode : Exit::How::kSignal, news.number},
                                cgroups_ != nullptr ? cgroups_->OomKilled(key) : std::nullopt}});
      return;
    }
  }
}

// A guard that ended without a report of the rank's exit was killed, and the rank with it by
// SIGKILL, its parent-death signal. A guard that had reported the exit may have been killed before
// it killed the rest.
void GuardedRunner::Bury(const RankKey& key, Guard& guard) {
  const bool orphaned = !EndedWell(guard.pid);
  Remains remains{.key = key, .orphaned = orphaned, .since = clock_.Now(), .last = std::nullopt};
  if (guard.rank_started) {
    if (!guard.rank_ended) sink_({key, ProcessExited{{Exit::How::kSignal, SIGKILL}}});
    remains.last = ProcessNews{key, ProcessGone{}};
  } else if (!guard.rank_ended) {
    remains.last =
        ProcessNews{key, ProcessNotStarted{absl::StrCat("guard ", guard_path_,
                                                        " ended before it ran ", guard.program)}};
  }
  remains_.push_back(std::move(remains));
  sweep_again_ = kSweepAgainMin;
}

void GuardedRunner::Sweep() {
  const bool orphaned = std::any_of(remains_.begin(), remains_.end(),
                                    [](const Remains& each) { return each.orphaned; });
  const bool orphans = orphaned && KillOrphans();
  std::erase_if(remains_, [&](Remains& each) { return NothingLeftOf(each, orphans); });
  sweep_again_ = std::min(2 * sweep_again_, kSweepAgainMax);
}

// Orphans cannot be attributed to a rank, so every rank whose guard died waits until all orphans
// are gone.
bool GuardedRunner::NothingLeftOf(Remains& remains, bool orphans) {
  const bool emptied = cgroups_ == nullptr || cgroups_->Remove(remains.key);
  if (emptied && !(remains.orphaned && orphans)) {
    if (processes_ != nullptr) processes_->End(remains.key);
    if (remains.last.has_value()) sink_(*remains.last);
    return true;
  }
  remains.orphaned = remains.orphaned && orphans;
  if (!remains.told && clock_.Now() - remains.since > kSweepPatience) {
    remains.told = true;
    Log(Severity::kWarning, "rank_does_not_die",
        {{"job", remains.key.job.value()},
         {"generation", remains.key.generation.value()},
         {"rank", remains.key.rank}});
  }
  return false;
}

// Children of a killed guard become children of this process, level by level as their parents die.
// Later sweeps find again a process that the kernel does not let die; nothing waits for it.
bool GuardedRunner::KillOrphans() {
  int subreaper = 0;
  if (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) != 0 || subreaper == 0) return false;
  std::set<pid_t> guards;
  for (const auto& [key, guard] : guards_) guards.insert(guard.pid);
  bool found = false;
  for (const pid_t child : Children(getpid())) {
    if (guards.contains(child) || getsid(child) == getsid(0)) continue;
    KillDescendants(child);
    kill(child, SIGKILL);
    (void)waitpid(child, nullptr, WNOHANG);  // the next sweep finds it if it is still there
    found = true;
  }
  return found;
}

}  // namespace dp::worker
