#include "worker/engine/collectives/nccl_group.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "worker/engine/collectives/await_connected.h"
#include "worker/engine/collectives/operation_queue.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

// NCCL and CUDA wake nobody: how often the thread looks whether an operation is done. A fraction of
// the shortest all-reduce between hosts.
constexpr absl::Duration kPoll = absl::Microseconds(50);

constexpr const char* kIdKey = "nccl/id";

class NcclGroup : public Group {
 public:
  NcclGroup(NcclApi& api, int rank, int size, const NcclOptions& options)
      : api_(api), rank_(rank), size_(size), options_(options), queue_(options.group, [this] {
          Wake();
        }) {}

  ~NcclGroup() override {
    // On the queue's thread, which alone uses the communicator, after all that is under way.
    queue_.Close([this] {
      if (communicator_ != nullptr) api_.Abort(communicator_);
      if (stream_ != nullptr) api_.FreeStream(stream_);
    });
  }

  std::unique_ptr<Work> Connect(Store& store) {
    return queue_.Push(
        "connect",
        [this, &store] {
          std::vector<int> missing;
          const absl::Status status = Join(store, &missing);
          if (!status.ok() && Stopped()) return queue_.StopError("connect", missing);
          return status;
        },
        options_.connect_timeout);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> AllReduce(absl::Span<float> data, ReduceOp op) override {
    return Push("all_reduce", data.size(), [this, data, op] {
      return api_.AllReduce(communicator_, data.data(), data.size(), op, stream_);
    });
  }

  std::unique_ptr<Work> Broadcast(absl::Span<uint8_t> data, int root) override {
    DP_CHECK(root >= 0 && root < size_);
    return Push("broadcast", data.size(), [this, data, root] {
      return api_.Broadcast(communicator_, data.data(), data.size(), root, stream_);
    });
  }

  std::unique_ptr<Work> AllGather(absl::Span<const uint8_t> data,
                                  absl::Span<uint8_t> gathered) override {
    DP_CHECK(gathered.size() == data.size() * static_cast<size_t>(size_));
    return Push("all_gather", data.size(), [this, data, gathered] {
      return api_.AllGather(communicator_, data.data(), data.size(), gathered.data(), stream_);
    });
  }

  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [this]() -> absl::Status {
      const absl::Status status = Part();
      return !status.ok() && Stopped() ? queue_.StopError("leave", {}) : status;
    });
  }

  void Abort(const absl::Status& why) override { queue_.Abort(why); }

 private:
  using Enqueue = std::function<absl::Status()>;
  // Shared, since the queue's functions are copied; freed also where an operation never runs.
  using OwnedEvent = std::shared_ptr<void>;

  bool Stopped() const { return queue_.stop_reason().kind != StopReason::Kind::kNone; }

  absl::Status Join(Store& store, std::vector<int>* missing) {
    DP_RETURN_IF_ERROR(api_.UseDevice(options_.device));
    DP_ASSIGN_OR_RETURN(stream_, api_.MakeStream());
    if (rank_ == 0) {
      DP_ASSIGN_OR_RETURN(const std::string id, api_.UniqueId());
      DP_RETURN_IF_ERROR(store.Set(kIdKey, id));
    }
    DP_RETURN_IF_ERROR(AwaitRanks(
                           store, "nccl", rank_, size_, "", [this] { return Stopped(); }, missing)
                           .status());
    DP_ASSIGN_OR_RETURN(const std::string id, store.Get(kIdKey, absl::ZeroDuration()));
    DP_ASSIGN_OR_RETURN(communicator_, api_.Join(id, rank_, size_));
    return Poll([this] { return api_.Ready(communicator_); });
  }

  // Peers may still be in the last operation, which an abort would break for them.
  absl::Status Part() DP_EXCLUDES(mu_) {
    DP_RETURN_IF_ERROR(api_.Finalize(communicator_));
    DP_RETURN_IF_ERROR(Poll([this] { return api_.Ready(communicator_); }));
    api_.Destroy(std::exchange(communicator_, nullptr));
    return absl::OkStatus();
  }

  // Waits until `done`, an error of the communicator, or a stop.
  absl::Status Poll(const std::function<absl::StatusOr<bool>()>& done) DP_EXCLUDES(mu_) {
    for (;;) {
      DP_ASSIGN_OR_RETURN(const bool is_done, done());
      if (is_done) return absl::OkStatus();
      DP_RETURN_IF_ERROR(api_.Ready(communicator_).status());
      if (Stopped()) return absl::AbortedError("stopped");
      Pause();
    }
  }

  void Pause() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    woken_.WaitFor(mu_, kPoll);
  }

  // Stopped or failed, the communicator goes at once: that ends its kernels, so that nothing writes
  // to the caller's memory any more.
  std::unique_ptr<Work> Push(absl::string_view kind, size_t count, Enqueue enqueue) {
    const std::string name = absl::StrCat(kind, " ", ++operations_);
    const absl::StatusOr<OwnedEvent> computed = Record(options_.compute_stream);
    return queue_.Push(name, [this, name, count, enqueue, computed]() -> absl::Status {
      absl::Status status = computed.status();
      if (status.ok() && count > 0) status = Run(enqueue, *computed);
      if (status.ok()) return status;
      if (communicator_ != nullptr) api_.Abort(std::exchange(communicator_, nullptr));
      if (Stopped()) return queue_.StopError(name, {});
      return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
    });
  }

  absl::StatusOr<OwnedEvent> Record(NcclApi::Stream stream) {
    DP_ASSIGN_OR_RETURN(const NcclApi::Event event, api_.Record(stream));
    return OwnedEvent(event, [&api = api_](NcclApi::Event passed) { api.FreeEvent(passed); });
  }

  absl::Status Run(const Enqueue& enqueue, const OwnedEvent& computed) {
    DP_CHECK(communicator_ != nullptr);  // nobody works on after Leave
    DP_RETURN_IF_ERROR(api_.WaitOnStream(stream_, computed.get()));
    DP_RETURN_IF_ERROR(enqueue());
    DP_RETURN_IF_ERROR(Poll([this] { return api_.Ready(communicator_); }));
    DP_ASSIGN_OR_RETURN(const OwnedEvent reduced, Record(stream_));
    return Poll([this, &reduced] { return api_.Passed(reduced.get()); });
  }

  void Wake() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    woken_.NotifyAll();
  }

  NcclApi& api_;
  const int rank_;
  const int size_;
  const NcclOptions options_;
  int64_t operations_ = 0;
  NcclApi::Communicator communicator_ = nullptr;  // of the queue's thread
  NcclApi::Stream stream_ = nullptr;              // of the queue's thread
  Mutex mu_;
  CondVar woken_;
  OperationQueue queue_;  // last: its thread uses the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectNccl(NcclApi& api, Store& store, int rank, int size,
                                                   const NcclOptions& options,
                                                   std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  return AwaitConnected(std::make_unique<NcclGroup>(api, rank, size, options), store,
                        std::move(stop));
}

}  // namespace dp::engine
