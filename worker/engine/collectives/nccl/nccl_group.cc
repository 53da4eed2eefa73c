#include "worker/engine/collectives/nccl/nccl_group.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "worker/engine/collectives/ended_work.h"
#include "worker/engine/collectives/links/peer_links.h"
#include "worker/engine/collectives/nccl/nccl_aborts.h"
#include "worker/engine/collectives/nccl/nccl_alone.h"
#include "worker/engine/collectives/nccl/nccl_connect.h"
#include "worker/engine/collectives/nccl/nccl_message.h"
#include "worker/engine/collectives/nccl/nccl_messages.h"
#include "worker/engine/collectives/nccl/nccl_on_host.h"
#include "worker/engine/collectives/nccl/nccl_operations.h"
#include "worker/engine/collectives/nccl/nccl_pipeline.h"
#include "worker/engine/collectives/nccl/nccl_ras.h"
#include "worker/engine/collectives/nccl/roll_call.h"

namespace dp::engine {
namespace {

constexpr unsigned long kTimerSlackNs = 1'000;

class NcclWork : public Work {
 public:
  NcclWork(NcclApi& api, NcclApi::Stream compute_stream, std::shared_ptr<NcclOperations> operations,
           NcclOperations::Handle operation)
      : api_(api),
        compute_stream_(compute_stream),
        operations_(std::move(operations)),
        operation_(std::move(operation)) {}

  absl::Status Wait() override { return operations_->Wait(*operation_); }
  absl::Status WaitOnStream() override {
    DP_ASSIGN_OR_RETURN(const NcclEvent done, operations_->AwaitGiven(*operation_));
    return done == nullptr ? absl::OkStatus() : api_.WaitOnStream(compute_stream_, done.get());
  }
  bool done() const override { return operations_->ended(*operation_); }
  WorkTimes times() const override { return operations_->times(*operation_); }

 private:
  NcclApi& api_;
  const NcclApi::Stream compute_stream_;
  const std::shared_ptr<NcclOperations> operations_;
  const NcclOperations::Handle operation_;
};

// Two threads: one drives the communicator and never blocks; the other waits for the store. The
// links have a third, which drives the communicators of messages.
class NcclGroup : public Group {
 public:
  NcclGroup(NcclApi& api, Store& store, int rank, int size, const NcclOptions& options,
            NcclMembership membership, NcclApi::Stream stream)
      : api_(api),
        rank_(rank),
        size_(size),
        options_(options),
        stream_(stream),
        operations_(std::make_shared<NcclOperations>(Clock::Steady(), options.operations_max)),
        times_(SuspicionTimesFor(options.group.timeout, options.beat)),
        roll_call_(store, rank, size,
                   {.prefix = "nccl", .interval = times_.interval, .patience = times_.patience},
                   Clock::Steady()),
        aborts_(api, options.device),
        messages_({.api = api,
                   .aborts = aborts_,
                   .device = options.device,
                   .tuning = options.message_tuning,
                   .interval = times_.interval,
                   .clock = Clock::Steady()}),
        links_(std::move(membership.links),
               {.timeout = options.group.timeout,
                .on_failure = [this](const absl::Status& why) { MessageFailed(why); },
                .carrier = &messages_}) {
    if (options.ask_ras) OpenRas();
    driver_ = std::jthread([this, communicator = membership.communicator](std::stop_token stop) {
      Drive(communicator, stop);
    });
    caller_ = std::jthread([this] { CallRoll(); });
  }

  // A group that ends while all is well writes nothing to the store: its peers see the same as if
  // this rank had died. A failed or aborted group still writes its last report.
  ~NcclGroup() override {
    roll_call_.Close();
    caller_.join();
    driver_.request_stop();
    operations_->Abort(absl::AbortedError("its group was closed"));
    driver_.join();
    aborts_.Await();
    on_host_.reset();
    if (!barrier_.empty()) api_.Free(barrier_.data());
    api_.FreeStream(stream_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Group& on_host() override { return *on_host_; }

  // Must precede all other calls.
  absl::Status OpenOnHost() {
    DP_ASSIGN_OR_RETURN(uint8_t* const barrier, api_.Allocate(1));
    barrier_ = {barrier, 1};
    DP_ASSIGN_OR_RETURN(on_host_,
                        MakeNcclOnHost(api_, *this, options_.compute_stream, staging_bytes()));
    return absl::OkStatus();
  }

  // A deadline of its own is only for groups of the host: on a device, each counts from when the
  // device has reached the operation.
  std::unique_ptr<Work> Start(Collective call) override {
    const absl::string_view name = NameOf(call.shape);
    if (call.shape.kind == CallShape::Kind::kBarrier) call = SumOf(barrier_);
    size_t bytes = call.input.size();
    for (size_t r = 0; r < call.sent.size(); ++r)
      bytes += call.sent[r].size() + call.received[r].size();
    return Push(name, bytes, [this, call = std::move(call)](NcclApi::Communicator communicator) {
      return api_.Give(communicator, call, stream_);
    });
  }

  // Finalizes the communicator, which all ranks do together. Peers may still be in the last
  // operation, which an abort would break for them.
  std::unique_ptr<Work> Leave() override {
    auto operation = std::make_shared<NcclOperation>();
    operation->name = "leave";
    operation->leaves = true;
    return Push(std::move(operation));
  }

  std::unique_ptr<Work> Pass(const Message& message) override {
    if (absl::Status failure = WhyNoMessage(); !failure.ok())
      return std::make_unique<EndedWork>(std::move(failure));
    absl::StatusOr<NcclEvent> computed = RecordNcclEvent(api_, options_.compute_stream);
    if (!computed.ok()) return std::make_unique<EndedWork>(computed.status());
    auto pending =
        std::make_shared<NcclMessage>(message, options_.group.timeout, *std::move(computed));
    if (absl::Status begun = links_.Begin(pending); !begun.ok())
      return std::make_unique<EndedWork>(std::move(begun));
    return std::make_unique<NcclMessageWork>(api_, options_.compute_stream, std::move(pending));
  }

  void Abort(const absl::Status& why) override {
    operations_->Abort(why);
    links_.Abort(why);
  }

 private:
  static Collective SumOf(absl::Span<uint8_t> bytes) {
    return {.shape = {.kind = CallShape::Kind::kAllReduce, .count = bytes.size()},
            .input = bytes,
            .output = bytes};
  }

  // The largest worlds need more, so that a gather has room for a piece of each rank.
  int64_t staging_bytes() const {
    return std::max<int64_t>(options_.staging_bytes, int64_t{size_ + 1} * sizeof(float));
  }

  // NCCL reads the same variables, and reports what is wrong with them.
  void OpenRas() {
    const char* enabled = std::getenv("NCCL_RAS_ENABLE");
    if (enabled != nullptr && absl::string_view(enabled) == "0") return;
    const char* given = std::getenv("NCCL_RAS_ADDR");
    const auto address = RasAddress(given == nullptr ? "" : given);
    const RasSelf self{.rank = rank_, .size = size_, .pid = static_cast<int>(getpid())};
    if (address.ok()) ras_.emplace(*address, self);
  }

  std::unique_ptr<Work> Push(absl::string_view kind, size_t count, NcclOperation::Enqueue enqueue) {
    auto operation = std::make_shared<NcclOperation>();
    operation->name = absl::StrCat(kind, " ", pushed_ + 1);
    if (count > 0) {
      operation->means.enqueue = std::move(enqueue);
      operation->means.computed = RecordNcclEvent(api_, options_.compute_stream);
    }
    return Push(std::move(operation));
  }

  std::unique_ptr<Work> Push(NcclOperations::Handle operation) {
    operation->number = ++pushed_;
    operation->called = Clock::Steady().Now();
    operations_->Push(operation);
    return std::make_unique<NcclWork>(api_, options_.compute_stream, operations_,
                                      std::move(operation));
  }

  void Drive(NcclApi::Communicator communicator, const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "collectives");
    // The default of 50 us would stretch the shortest pauses. Best effort.
    (void)prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
    NcclPipeline pipeline({.api = api_,
                           .communicator = communicator,
                           .stream = stream_,
                           .operations = *operations_,
                           .roll_call = roll_call_,
                           .opinion = ras_.has_value() ? &*ras_ : nullptr,
                           .times = times_,
                           .clock = Clock::Steady(),
                           .abort = [this](NcclApi::Communicator c) { aborts_.Begin(c); },
                           .may_leave = [this] { return links_.Leave(); },
                           .has_caught_up = [this] { return links_.HasCaughtUp(); }});
    // Chooses this thread's device. The connecting thread chose it already, so this should not
    // fail.
    if (const absl::Status status = api_.UseDevice(options_.device); !status.ok())
      operations_->Abort(status);
    bool messages_end = false;
    while (!stop.stop_requested()) {
      const absl::Duration sleep = pipeline.Step();
      const std::optional<absl::Status> failed = operations_->failed();
      if (failed.has_value() && !std::exchange(messages_end, true)) links_.Break(*failed);
      operations_->AwaitNews(sleep);
    }
  }

  void CallRoll() {
    pthread_setname_np(pthread_self(), "roll-call");
    while (!roll_call_.closed()) {
      roll_call_.Step();
      roll_call_.AwaitDue();
    }
    roll_call_.Step();  // the last report
  }

  // Messages and collectives share one fate.
  void MessageFailed(const absl::Status& why) DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      message_failure_ = why;
    }
    operations_->Break(why);
  }
  absl::Status WhyNoMessage() const DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (!message_failure_.ok()) return message_failure_;
    }
    return operations_->broken().value_or(absl::OkStatus());
  }

  NcclApi& api_;
  const int rank_;
  const int size_;
  const NcclOptions options_;
  const NcclApi::Stream stream_;
  const std::shared_ptr<NcclOperations> operations_;
  std::unique_ptr<Group> on_host_;
  absl::Span<uint8_t> barrier_;  // on the device; its sum makes the ranks meet
  int64_t pushed_ = 0;           // used by the caller's thread
  const SuspicionTimes times_;
  RollCall roll_call_;
  std::optional<RasOpinion> ras_;
  mutable Mutex mu_;
  absl::Status message_failure_ DP_GUARDED_BY(mu_);
  NcclAborts aborts_;
  NcclMessages messages_;
  PeerLinks links_;
  // Last: they use the rest.
  std::jthread driver_;
  std::jthread caller_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectNccl(NcclApi& api, Store& store, int rank, int size,
                                                   const NcclOptions& options,
                                                   std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  if (size == 1) return MakeNcclAlone(api, options);
  DP_ASSIGN_OR_RETURN(NcclMembership membership,
                      JoinCommunicator(api, store, rank, size, options, std::move(stop)));
  const absl::StatusOr<NcclApi::Stream> stream = api.MakeStream();
  if (!stream.ok()) {
    api.Abort(membership.communicator);
    return stream.status();
  }
  auto group =
      std::make_unique<NcclGroup>(api, store, rank, size, options, std::move(membership), *stream);
  DP_RETURN_IF_ERROR(group->OpenOnHost());
  return group;
}

}  // namespace dp::engine
