#include "worker/engine/collectives/local/local_group.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "worker/engine/collectives/ended_work.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/links/peer_links.h"
#include "worker/engine/collectives/local/rank_part.h"
#include "worker/engine/collectives/operation_queue.h"

namespace dp::engine {
namespace {

// How a rank's wait for the others ended.
enum class Arrival { kAll, kStopped, kPeerLeft };

// The ranks meet here for one operation after another. A rank arrives with its call. Once all have
// arrived, each works on everybody's memory; once all have finished, all leave. Only arriving can
// block for long, so only arriving can be stopped. Shared by the ranks; thread-safe.
class Meeting {
 public:
  explicit Meeting(int size) : ranks_(size) {}

  // Blocks until all ranks have arrived, this rank is stopped, or a missing rank has left.
  // `missing` gets the ranks that left or, on a stop, all absent ranks.
  Arrival Arrive(int rank, const Collective& call, std::vector<int>* missing) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ranks_[rank].call = &call;
    ranks_[rank].here = true;
    if (++here_ == size()) {
      working_ = size();
      changed_.NotifyAll();
    }
    while (working_ == 0) {
      if (std::vector<int> left = Left(); !left.empty())
        return Withdraw(rank, Arrival::kPeerLeft, std::move(left), missing);
      if (ranks_[rank].stopped) return Withdraw(rank, Arrival::kStopped, Absent(), missing);
      changed_.Wait(mu_);
    }
    return Arrival::kAll;
  }

  // Blocks until all ranks have finished with each other's memory.
  void Finish() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const int64_t round = round_;
    if (--working_ == 0) {
      for (Rank& rank : ranks_) rank.here = false;
      here_ = 0;
      ++round_;
      changed_.NotifyAll();
    }
    while (round_ == round) changed_.Wait(mu_);
  }

  void Stop(int rank) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ranks_[rank].stopped = true;
    changed_.NotifyAll();
  }

  void Leave(int rank) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ranks_[rank].left = true;
    changed_.NotifyAll();
  }

  // No call changes between Arrive and Finish.
  const Collective& call(int rank) const DP_NO_THREAD_SAFETY_ANALYSIS { return *ranks_[rank].call; }

 private:
  struct Rank {
    const Collective* call = nullptr;
    bool here = false;
    bool stopped = false;
    bool left = false;
  };

  int size() const DP_REQUIRES(mu_) { return static_cast<int>(ranks_.size()); }

  std::vector<int> Absent() const DP_REQUIRES(mu_) {
    std::vector<int> absent;
    for (int r = 0; r < size(); ++r)
      if (!ranks_[r].here) absent.push_back(r);
    return absent;
  }
  std::vector<int> Left() const DP_REQUIRES(mu_) {
    std::vector<int> left;
    for (int r = 0; r < size(); ++r)
      if (!ranks_[r].here && ranks_[r].left) left.push_back(r);
    return left;
  }

  Arrival Withdraw(int rank, Arrival how, std::vector<int> who, std::vector<int>* missing)
      DP_REQUIRES(mu_) {
    ranks_[rank].here = false;
    --here_;
    *missing = std::move(who);
    return how;
  }

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<Rank> ranks_ DP_GUARDED_BY(mu_);
  int here_ DP_GUARDED_BY(mu_) = 0;     // ranks that have arrived
  int working_ DP_GUARDED_BY(mu_) = 0;  // of a full meeting, the ranks that have not finished
  int64_t round_ DP_GUARDED_BY(mu_) = 0;
};

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int rank, int size, const GroupOptions& options,
             absl::StatusOr<LinkMembership> links)
      : meeting_(std::move(meeting)),
        rank_(rank),
        size_(size),
        queue_(options, [this] { meeting_->Stop(rank_); }),
        links_(std::move(links),
               {.timeout = options.timeout,
                .on_failure = [this](const absl::Status& why) { queue_.Break(why); }}) {}

  ~LocalGroup() override {
    queue_.Abort(absl::AbortedError("its group was closed"));
    meeting_->Leave(rank_);
    queue_.Close();  // before the links go
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> Start(Collective call) override {
    std::string name = absl::StrCat(NameOf(call.shape), " ", ++operations_);
    const auto timeout = call.timeout;
    const auto run = [this, name, call = std::move(call)]() -> absl::Status {
      std::vector<int> missing;
      switch (meeting_->Arrive(rank_, call, &missing)) {
        case Arrival::kStopped:
          return queue_.StopError(name, missing);
        case Arrival::kPeerLeft:
          return WentAway(name, missing);
        case Arrival::kAll:
          break;
      }
      absl::Status status = CheckCallsAgree();
      if (status.ok()) RunPartOf(rank_, Calls());
      meeting_->Finish();
      if (status.ok()) return status;
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
    };
    return queue_.Push(name, run, timeout);
  }

  // Waits for nobody: a rank that has finished an operation needs nothing more from its peers.
  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [] { return absl::OkStatus(); });
  }

  std::unique_ptr<Work> Pass(const Message& message) override {
    if (absl::Status failure = queue_.failure(); !failure.ok())
      return std::make_unique<EndedWork>(std::move(failure));
    return links_.Pass(message);
  }

  void Abort(const absl::Status& why) override {
    queue_.Abort(why);
    links_.Abort(why);
  }

 private:
  std::vector<const Collective*> Calls() const {
    std::vector<const Collective*> calls;
    for (int r = 0; r < size_; ++r) calls.push_back(&meeting_->call(r));
    return calls;
  }

  absl::Status CheckCallsAgree() const {
    std::vector<CallShape> shapes;
    for (const Collective* call : Calls()) shapes.push_back(call->shape);
    DP_RETURN_IF_ERROR(CheckShapesAgree(shapes));
    if (shapes[0].kind != CallShape::Kind::kExchange) return absl::OkStatus();
    std::vector<PieceSizes> pieces;
    for (const Collective* call : Calls()) pieces.push_back(PieceSizesOf(*call));
    return CheckPiecesAgree(pieces);
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const int size_;
  int64_t operations_ = 0;
  OperationQueue queue_;  // its thread uses the rest
  PeerLinks links_;       // last: they end first
};

// The links of all ranks. Errors: the system's, of one rank.
std::vector<absl::StatusOr<LinkMembership>> LinkLocally(int size) {
  std::vector<absl::StatusOr<LinkMembership>> links;
  if (size == 1) {
    links.push_back(absl::FailedPreconditionError("one rank has no peer"));
    return links;
  }
  const std::string name = absl::StrCat("dp-local-", Unguessable()), token = Unguessable();
  std::vector<LinkPlace> places;
  for (int r = 0; r < size; ++r)
    places.push_back({LocalLinkAddress(absl::StrCat(name, "-", r)), token});
  for (int r = 0; r < size; ++r) {
    absl::StatusOr<FileDescriptor> listener = ListenForLinks(places[r].address, size);
    if (listener.ok()) {
      links.push_back(JoinLinks(r, places, *std::move(listener)));
    } else {
      links.push_back(listener.status());
    }
  }
  return links;
}

}  // namespace

std::vector<std::unique_ptr<Group>> MakeLocalGroups(int size, const GroupOptions& options) {
  DP_CHECK(size > 0);
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<absl::StatusOr<LinkMembership>> links = LinkLocally(size);
  std::vector<std::unique_ptr<Group>> groups;
  for (int r = 0; r < size; ++r)
    groups.push_back(std::make_unique<LocalGroup>(meeting, r, size, options, std::move(links[r])));
  return groups;
}

}  // namespace dp::engine
