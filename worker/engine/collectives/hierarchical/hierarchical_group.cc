#include "worker/engine/collectives/hierarchical/hierarchical_group.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/status.h"
#include "store/prefix_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/hierarchical/host_meeting.h"
#include "worker/engine/collectives/hierarchical/host_operations.h"
#include "worker/engine/collectives/hierarchical/host_plan.h"
#include "worker/engine/collectives/hierarchical/host_steps.h"
#include "worker/engine/collectives/operation_queue.h"
#include "worker/engine/collectives/shm/shm_group.h"

namespace dp::engine {
namespace {

// The groups of which a rank on one of several hosts is a member.
struct Levels {
  HostPlan plan;
  SharedRanks local;  // no group if this rank is alone on its host
  std::unique_ptr<Group> between;
};

// Its operations are sequences of smaller ones over the groups below. Every rank is connected with
// every other, so a death is seen at once everywhere.
class HierarchicalGroup : public Group {
 public:
  HierarchicalGroup(Levels levels, int rank, const GroupOptions& options)
      : plan_(std::move(levels.plan)),
        rank_(rank),
        timeout_(options.timeout),
        local_(std::move(levels.local.group)),
        between_(std::move(levels.between)),
        queue_(options, [this] { PassOnAbort(); }) {
    self_.plan = &plan_;
    self_.rank = rank;
    self_.local = local_.get();
    self_.between = between_.get();
    OpenStaging(levels.local.heaps);
  }

  int rank() const override { return rank_; }
  int size() const override { return plan_.ranks(); }

  std::unique_ptr<Work> Start(Collective call) override {
    const uint64_t number = ++operations_;
    const absl::Duration timeout = call.timeout.value_or(timeout_);
    const absl::Time deadline = Clock::Steady().Now() + timeout;
    const std::string name = absl::StrCat(NameOf(call), " ", number);
    const auto run = [this, name, number, timeout, deadline, call = std::move(call)] {
      HostSteps steps(self_, NameOf(call), number, deadline);
      return Outcome(Run(steps, call), name, timeout);
    };
    return queue_.Push(name, run, timeout);
  }

  // Every rank is connected with every other by the group between hosts.
  std::unique_ptr<Work> Pass(const Message& message) override { return between_->Pass(message); }

  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave",
                       [this] { return Outcome(between_->Leave()->Wait(), "leave", timeout_); });
  }

  void Abort(const absl::Status& why) override { queue_.Abort(why); }

 private:
  // Every rank allocates first of all, so the staging of each begins where its heap does.
  void OpenStaging(const std::vector<uint8_t*>& heaps) {
    self_.staging.resize(static_cast<size_t>(plan_.ranks()));
    Group& memory = local_ == nullptr ? *static_cast<Group*>(this) : *local_;
    const absl::Span<uint8_t> own = memory.Allocate(StagingArea::BytesFor(plan_.ranks()));
    const std::vector<int>& beside = self_.beside();
    for (size_t i = 0; i < heaps.size(); ++i)
      self_.staging[static_cast<size_t>(beside[i])] = StagingArea(heaps[i]);
    self_.staging[static_cast<size_t>(rank_)] = StagingArea(own.data());
  }

  absl::Status Run(HostSteps& steps, const Collective& call) {
    if (IsForOneLevel(call.shape, size())) return steps.StartBetween(call)->Wait();
    return RunOverHosts(self_, steps, call);
  }

  // The result of an operation whose last step had `status`. The groups below do not know the
  // operation's time limit, nor why it was aborted.
  absl::Status Outcome(const absl::Status& status, const std::string& name,
                       absl::Duration timeout) {
    if (status.ok()) return status;
    if (queue_.stop_reason().kind == StopReason::Kind::kAbort) return queue_.StopError(name, {});
    const bool late = absl::IsDeadlineExceeded(status);
    const std::vector<int> missing = MissingRanks(status);
    const bool differs = absl::IsInvalidArgument(status);
    if (late) self_.own_staging().GiveUp(missing);
    if (differs) self_.own_staging().NoteDifference();
    // Wakes the ranks of this host that wait for this one. They find out why.
    if ((late || differs || absl::IsUnavailable(status)) && local_ != nullptr)
      (void)local_->Leave();
    return late ? DidNotArrive(name, missing, timeout) : status;
  }

  // Deadlines need no wake: the step in progress has the same one.
  void PassOnAbort() {
    const StopReason stop = queue_.stop_reason();
    if (stop.kind != StopReason::Kind::kAbort) return;
    between_->Abort(stop.why);
    if (local_ != nullptr) local_->Abort(stop.why);
  }

  const HostPlan plan_;
  const int rank_;
  const absl::Duration timeout_;
  uint64_t operations_ = 0;
  // The groups write to the memory of `self_` until they end, in reverse order.
  HostRank self_;
  const std::unique_ptr<Group> local_;
  const std::unique_ptr<Group> between_;
  OperationQueue queue_;  // last: its thread uses the rest
};

// Brings the ranks together, level by level.
class HostsConnect {
 public:
  HostsConnect(Store& store, int rank, int size, const HierarchicalOptions& options,
               std::stop_token stop)
      : store_(store),
        rank_(rank),
        size_(size),
        options_(options),
        stop_(std::move(stop)),
        deadline_(Clock::Steady().Now() + options.connect_timeout) {}

  absl::StatusOr<ConnectedHosts> Run() {
    absl::StatusOr<ConnectedHosts> connected = Connect();
    if (connected.ok()) return connected;
    const bool late = Left() <= absl::ZeroDuration();
    if (absl::IsAborted(connected.status()) && late && !stop_.stop_requested())
      return DidNotArrive("connect", missing_, options_.connect_timeout);
    if (absl::IsAborted(connected.status()) && stop_.stop_requested())
      return AbortedBecause("connect", absl::CancelledError("its caller asked it to stop"));
    if (absl::IsDeadlineExceeded(connected.status()))
      return DidNotArrive("connect", MissingRanks(connected.status()), options_.connect_timeout);
    return connected;
  }

 private:
  absl::StatusOr<ConnectedHosts> Connect() {
    const HostWait wait{[this] { return stop_.stop_requested() || Left() <= absl::ZeroDuration(); },
                        &missing_};
    DP_ASSIGN_OR_RETURN(std::vector<int> host_of,
                        MeetHosts(store_, rank_, size_, options_.host, wait));
    ConnectedHosts connected;
    SharedRanks local;
    if (HostPlan(host_of).shares()) {
      auto shared = Share(HostPlan(host_of));
      if (!shared.ok() && !absl::IsFailedPrecondition(shared.status())) return shared.status();
      connected.why_not = std::string(shared.status().message());
      DP_ASSIGN_OR_RETURN(host_of,
                          AgreeWhoShares(store_, rank_, host_of, wait, &connected.why_not));
      if (shared.ok()) local = *std::move(shared);
    }
    HostPlan plan(std::move(host_of));
    connected.backend = plan.hosts() == 1 && size_ > 1 ? "shm"
                        : plan.shares()                ? "hierarchical"
                                                       : "gloo";
    if (connected.backend == "shm") {
      connected.group = std::move(local.group);
      return connected;
    }
    DP_ASSIGN_OR_RETURN(connected.group, ConnectBetween());
    if (connected.backend == "hierarchical")
      connected.group = std::make_unique<HierarchicalGroup>(
          Levels{std::move(plan), std::move(local), std::move(connected.group)}, rank_,
          options_.group);
    return connected;
  }

  absl::Duration Left() const { return deadline_ - Clock::Steady().Now(); }

  // The ranks of this host. No group if this rank is alone.
  absl::StatusOr<SharedRanks> Share(const HostPlan& plan) {
    const int host = plan.host_of(rank_);
    const std::vector<int>& beside = plan.ranks_of(host);
    if (beside.size() == 1) return SharedRanks();
    PrefixStore keys(absl::StrCat("hosts/", host, "/"), store_);
    const auto place = std::find(beside.begin(), beside.end(), rank_) - beside.begin();
    return ConnectShared(keys, static_cast<int>(place), static_cast<int>(beside.size()),
                         {.group = options_.group, .connect_timeout = Left(), .names = beside},
                         stop_);
  }

  absl::StatusOr<std::unique_ptr<Group>> ConnectBetween() {
    return ConnectGloo(store_, rank_, size_,
                       {.group = options_.group,
                        .connect_timeout = Left(),
                        .address = options_.address,
                        .interface = options_.interface},
                       stop_);
  }

  Store& store_;
  const int rank_;
  const int size_;
  const HierarchicalOptions& options_;
  const std::stop_token stop_;
  const absl::Time deadline_;
  std::vector<int> missing_;
};

}  // namespace

absl::StatusOr<ConnectedHosts> ConnectHierarchical(Store& store, int rank, int size,
                                                   const HierarchicalOptions& options,
                                                   std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  return HostsConnect(store, rank, size, options, std::move(stop)).Run();
}

}  // namespace dp::engine
