#include "worker/library/spawn/spawned_ranks.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "worker/library/dist_error.h"

namespace dp::library {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A rank that blames its peers may end before the peer whose failure it noticed. The peer's own
// failure is awaited so long.
constexpr auto kExplainedWithin = std::chrono::seconds(2);
// The longest single wait of poll.
constexpr milliseconds kPollMax = std::chrono::hours(1);

// Rounds up: a wait that ends early would spin.
int PollTimeout(std::optional<steady_clock::time_point> until) {
  if (!until) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*until - steady_clock::now());
  return static_cast<int>(std::clamp(left, milliseconds::zero(), kPollMax).count());
}

// `now` plus a duration that callers may give without bounds.
steady_clock::time_point After(milliseconds duration) {
  constexpr milliseconds kForever = std::chrono::hours(24 * 365 * 100);
  return steady_clock::now() + std::min(duration, kForever);
}

}  // namespace

SpawnedRanks::SpawnedRanks(const std::function<void(int)>& fn, int nprocs,
                           const distributed::SpawnOptions& options)
    : owner_(getpid()), grace_(options.grace) {
  try {
    Start(fn, nprocs, options);
  } catch (...) {
    End();
    throw;
  }
}

SpawnedRanks::~SpawnedRanks() {
  if (getpid() == owner_) End();
}

void SpawnedRanks::Start(const std::function<void(int)>& fn, int nprocs,
                         const distributed::SpawnOptions& options) {
  distributed::SpawnOptions at = options;
  if (options.master_port == 0) {
    port_ = OrThrow(ReservedPort::Open(), ErrorSource::kStore);
    at.master_addr = "127.0.0.1";
    at.master_port = port_->port();
  }
  const auto prepare = [this] {
    if (port_) port_->Close();
    running_.clear();
  };
  for (int i = 0; i < nprocs; ++i) {
    running_.push_back(OrThrow(
        RankProcess::Start(options.first_rank + i, VariablesOfRank(at, nprocs, i), prepare, fn),
        ErrorSource::kCaller));
    pids_.push_back(running_.back().pid());
  }
}

bool SpawnedRanks::Join(std::optional<milliseconds> timeout) {
  if (failure_) throw *failure_;
  const auto deadline = timeout ? std::optional(After(*timeout)) : std::nullopt;
  for (;;) {
    TakeEnds(steady_clock::now());
    const RankEnd* cause = RootCause(ends_);
    if (cause != nullptr && IsExplained(steady_clock::now())) {
      failure_ = SpawnErrorOf(*cause);
      End();
      throw *failure_;
    }
    if (running_.empty()) return true;
    if (deadline && steady_clock::now() >= *deadline) return false;
    const auto explained = failed_since_ + kExplainedWithin;
    TakeEnds(cause == nullptr ? deadline : std::min(explained, deadline.value_or(explained)));
  }
}

bool SpawnedRanks::IsExplained(Time now) const {
  const RankEnd* cause = RootCause(ends_);
  return !cause->thrown || !cause->thrown->blames_peers || running_.empty() ||
         now >= failed_since_ + kExplainedWithin;
}

void SpawnedRanks::TakeEnds(std::optional<Time> until) {
  std::vector<pollfd> fds;
  for (const RankProcess& rank : running_) fds.push_back({rank.ended_fd(), POLLIN, 0});
  if (poll(fds.data(), fds.size(), PollTimeout(until)) <= 0) return;  // 0: none; -1: a signal
  const bool failed = RootCause(ends_) != nullptr;
  std::vector<RankProcess> still;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (fds[i].revents != 0)
      ends_.push_back(running_[i].TakeEnd());
    else
      still.push_back(std::move(running_[i]));
  }
  running_ = std::move(still);
  if (!failed) failed_since_ = steady_clock::now();
}

void SpawnedRanks::Signal(int signal) const {
  for (const RankProcess& rank : running_) rank.Signal(signal);
}

void SpawnedRanks::End() {
  Signal(SIGTERM);
  const Time deadline = After(grace_);
  while (!running_.empty() && steady_clock::now() < deadline) TakeEnds(deadline);
  Signal(SIGKILL);
  while (!running_.empty()) TakeEnds(std::nullopt);
}

}  // namespace dp::library
