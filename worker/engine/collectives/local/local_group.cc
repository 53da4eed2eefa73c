#include "worker/engine/collectives/local/local_group.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/operation_queue.h"
#include "worker/engine/collectives/ordered_reduce.h"

namespace dp::engine {
namespace {

// A rank's part in an operation.
struct Offer {
  std::string call;  // the call with its arguments: equal on all ranks
  const uint8_t* input = nullptr;
  uint8_t* output = nullptr;
};

// How a rank's wait for the others ended.
enum class Arrival { kAll, kStopped, kPeerLeft };

// The ranks meet here for one operation after another. A rank arrives with its offer. Once all have
// arrived, each works on everybody's memory; once all have finished, all leave. Only arriving can
// block for long, so only arriving can be stopped. Shared by the ranks; thread-safe.
class Meeting {
 public:
  explicit Meeting(int size) : ranks_(size) {}

  // Blocks until all ranks have arrived, this rank is stopped, or a missing rank has left.
  // `missing` gets the ranks that left or, on a stop, all absent ranks.
  Arrival Arrive(int rank, Offer offer, std::vector<int>* missing) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ranks_[rank].offer = std::move(offer);
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

  // No offer changes between Arrive and Finish.
  const Offer& offer(int rank) const DP_NO_THREAD_SAFETY_ANALYSIS { return ranks_[rank].offer; }

 private:
  struct Rank {
    Offer offer;
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
  LocalGroup(std::shared_ptr<Meeting> meeting, int rank, int size, const GroupOptions& options)
      : meeting_(std::move(meeting)),
        rank_(rank),
        size_(size),
        queue_(options, [this] { meeting_->Stop(rank_); }) {}

  ~LocalGroup() override {
    queue_.Abort(absl::AbortedError("its group was closed"));
    meeting_->Leave(rank_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> AllReduce(absl::Span<float> data, ReduceOp op) override {
    auto* bytes = reinterpret_cast<uint8_t*>(data.data());
    return Push(absl::StrCat("all_reduce of ", data.size(), " floats, op ", static_cast<int>(op)),
                "all_reduce", bytes, bytes,
                [this, count = data.size(), op] { ReduceMySlice(count, op); });
  }

  std::unique_ptr<Work> Broadcast(absl::Span<uint8_t> data, int root) override {
    DP_CHECK(root >= 0 && root < size_);
    return Push(absl::StrCat("broadcast of ", data.size(), " bytes from rank ", root), "broadcast",
                data.data(), data.data(), [this, bytes = data.size(), root] {
                  if (rank_ != root)
                    Copy(meeting_->offer(rank_).output, meeting_->offer(root).input, bytes);
                });
  }

  std::unique_ptr<Work> AllGather(absl::Span<const uint8_t> data,
                                  absl::Span<uint8_t> gathered) override {
    DP_CHECK(gathered.size() == data.size() * static_cast<size_t>(size_));
    return Push(absl::StrCat("all_gather of ", data.size(), " bytes"), "all_gather", data.data(),
                gathered.data(), [this, bytes = data.size()] {
                  for (int r = 0; r < size_; ++r)
                    Copy(meeting_->offer(rank_).output + r * bytes, meeting_->offer(r).input,
                         bytes);
                });
  }

  // Waits for nobody: a rank that has finished an operation needs nothing more from its peers.
  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [] { return absl::OkStatus(); });
  }

  void Abort(const absl::Status& why) override { queue_.Abort(why); }

 private:
  static void Copy(uint8_t* to, const uint8_t* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  template <typename WorkTogether>
  std::unique_ptr<Work> Push(std::string call, absl::string_view kind, const uint8_t* input,
                             uint8_t* output, WorkTogether work) {
    std::string name = absl::StrCat(kind, " ", ++operations_);
    Offer offer{std::move(call), input, output};
    return queue_.Push(name, [this, name, offer, work] {
      std::vector<int> missing;
      switch (meeting_->Arrive(rank_, offer, &missing)) {
        case Arrival::kStopped:
          return queue_.StopError(name, missing);
        case Arrival::kPeerLeft:
          return WentAway(name, missing);
        case Arrival::kAll:
          break;
      }
      absl::Status status = CheckCallsAgree(name);
      if (status.ok()) work();
      meeting_->Finish();
      return status;
    });
  }

  absl::Status CheckCallsAgree(const std::string& name) const {
    for (int r = 1; r < size_; ++r)
      if (meeting_->offer(r).call != meeting_->offer(0).call)
        return absl::InvalidArgumentError(absl::StrCat(name, ": rank 0 calls ",
                                                       meeting_->offer(0).call, ", rank ", r,
                                                       " calls ", meeting_->offer(r).call));
    return absl::OkStatus();
  }

  // Slices do not overlap, so the ranks write into each other's memory concurrently. A lone rank's
  // data is its reduction already, and may lie in the memory of a device.
  void ReduceMySlice(size_t count, ReduceOp op) {
    if (size_ == 1) return;
    const Slice slice = SliceOf(count, rank_, size_);
    if (slice.count == 0) return;
    std::vector<const float*> inputs;
    for (int r = 0; r < size_; ++r)
      inputs.push_back(reinterpret_cast<const float*>(meeting_->offer(r).input) + slice.begin);
    float* out = reinterpret_cast<float*>(meeting_->offer(rank_).output) + slice.begin;
    ReduceInOrder(inputs, slice.count, op, out);
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        std::memcpy(reinterpret_cast<float*>(meeting_->offer(r).output) + slice.begin, out,
                    slice.count * sizeof(float));
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const int size_;
  int64_t operations_ = 0;
  OperationQueue queue_;  // last: its thread uses the rest
};

}  // namespace

std::vector<std::unique_ptr<Group>> MakeLocalGroups(int size, const GroupOptions& options) {
  DP_CHECK(size > 0);
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Group>> groups;
  for (int r = 0; r < size; ++r)
    groups.push_back(std::make_unique<LocalGroup>(meeting, r, size, options));
  return groups;
}

}  // namespace dp::engine
