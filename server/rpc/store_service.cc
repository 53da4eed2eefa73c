#include "server/rpc/services.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/status.h"
#include "dp/v1/store.grpc.pb.h"
#include "google/protobuf/arena.h"
#include "grpcpp/support/message_allocator.h"
#include "proto/convert/store_operations.h"
#include "server/access/gate.h"
#include "server/callers/store_callers.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_waiters.h"
#include "server/core/job_registry.h"
#include "server/driver/awaited_reads.h"
#include "server/driver/driver.h"
#include "server/rpc/call.h"
#include "server/rpc/park_call.h"
#include "store/awaited_keys.h"

namespace dp::server {
namespace {

// Bytes of the name that a caller gives, which is kept with each parked call.
constexpr size_t kWhoBytesMax = 100;

std::string PeerIn(const v1::AwaitRequest& request) {
  return request.has_rank() ? "" : request.peer().substr(0, kSocketEndBytesMax);
}

// Takes the operations out of the request.
absl::StatusOr<core::StoreBatch> ToBatch(v1::ExecuteRequest& request) {
  DP_ASSIGN_OR_RETURN(std::vector<StoreOperation> operations,
                      OperationsFromProto(std::move(*request.mutable_operations())));
  return core::StoreBatch{
      JobId(request.job()),  Generation(request.generation()),
      request.client(),      request.sequence(),
      std::move(operations), {request.groups().begin(), request.groups().end()}};
}

absl::StatusOr<BlockedCall> ToCall(const v1::AwaitRequest& request) {
  DP_ASSIGN_OR_RETURN(std::vector<StoreOperation> reads, OperationsFromProto(request.reads()));
  return BlockedCall{.job = JobId(request.job()),
                     .generation = Generation(request.generation()),
                     .who = request.who().substr(0, kWhoBytesMax),
                     .rank = request.has_rank() ? request.rank() : -1,
                     .peer = PeerIn(request),
                     .waited = std::max(FromProto(request.waited()), absl::ZeroDuration()),
                     .reads = std::move(reads),
                     .since = {}};
}

void FillResults(const core::Reply& reply, v1::ExecuteResponse* response) {
  if (const auto* results = std::get_if<std::vector<StoreResult>>(&reply)) {
    return ResultsToProto(*results, response->mutable_results());
  }
  const auto& groups = std::get<core::GroupResults>(reply);
  ResultsToProto(groups.results, response->mutable_results());
  for (const core::GroupResults::Refused& refused : groups.refused) {
    v1::RefusedGroup* added = response->add_refused();
    added->set_group(refused.group);
    added->set_code(static_cast<int>(refused.status.code()));
    added->set_message(std::string(refused.status.message()));
  }
}

// The store existed when the wait began, so its end is news: Aborted.
absl::Status GoneWhileWaiting(const absl::Status& status) {
  const bool ended = status.code() == absl::StatusCode::kFailedPrecondition;
  return ended ? absl::AbortedError(status.message()) : status;
}

// Holds the messages of one Store.Execute on an arena of their own, because each operation has
// several parts. Owned by gRPC, from the beginning of the call to its end.
class ExecuteMessages final : public grpc::MessageHolder<v1::ExecuteRequest, v1::ExecuteResponse> {
 public:
  ExecuteMessages() {
    set_request(v1::ExecuteRequest::default_instance().New(&arena_));
    set_response(v1::ExecuteResponse::default_instance().New(&arena_));
  }

  void Release() override { delete this; }

 private:
  // Holds a batch of about a hundred small operations and its answer.
  static constexpr size_t kFirstBlockBytes = size_t{32} << 10;

  alignas(8) char first_block_[kFirstBlockBytes];
  google::protobuf::Arena arena_{first_block_, sizeof(first_block_)};
};

// Stateless; outlives the server.
class ExecuteMessageAllocator final
    : public grpc::MessageAllocator<v1::ExecuteRequest, v1::ExecuteResponse> {
 public:
  ExecuteMessages* AllocateMessages() override { return new ExecuteMessages; }
};

// One await. Not thread-safe; used on the driver's thread; owned by the parked call's question.
class ParkedAwait {
 public:
  ParkedAwait(BlockedCall call, const v1::AwaitRequest& request, StoreCallers& callers,
              v1::AwaitResponse* response)
      : call_(std::move(call)),
        reads_(call_.reads,
               request.each() ? AwaitedReads::Mode::kEach : AwaitedReads::Mode::kTogether),
        callers_(callers),
        response_(response) {}

  std::optional<absl::Status> Ask(const View& view, bool last) {
    const auto store = view.coordinator.store(call_.job, call_.generation);
    if (!store.ok()) return asked_ ? GoneWhileWaiting(store.status()) : store.status();
    if (!std::exchange(asked_, true)) callers_.arrivals.Saw(call_, **store);
    if (reads_.AllFound(**store, view.changed)) return Answer(**store, view);
    if (last && reads_.mode() == AwaitedReads::Mode::kEach) return Answer(**store, view);
    if (last) return StillBlocked(call_, **store, view, callers_);
    return std::nullopt;
  }

 private:
  absl::Status Answer(const KeyValues& store, const View& view) {
    callers_.arrivals.Answered(call_, store);
    SetHeader(view, response_);
    ResultsToProto(reads_.Results(store), response_->mutable_results());
    return absl::OkStatus();
  }

  const BlockedCall call_;
  AwaitedReads reads_;
  StoreCallers& callers_;
  v1::AwaitResponse* const response_;
  bool asked_ = false;
};

// Serves proto/dp/v1/store.proto through the driver. Thread-safe.
class StoreService final : public v1::Store::CallbackService {
 public:
  StoreService(Gate& gate, StoreCallers& callers) : gate_(gate), callers_(callers) {
    SetMessageAllocatorFor_Execute(&execute_messages_);
  }

  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context, const v1::ExecuteRequest*,
                                    v1::ExecuteResponse* response) override {
    v1::ExecuteRequest& request =
        *static_cast<ExecuteMessages*>(context->GetRpcAllocatorState())->request();
    const Admission admission =
        gate_.Admit(*context, Rpc::kStoreExecute,
                    AccessObject::Of(JobId(request.job()), Generation(request.generation())));
    auto batch = ToBatch(request);
    if (!batch.ok()) return Refuse(admission, context, batch.status());
    return Apply(admission, context, *std::move(batch),
                 [=](const core::Outcome& outcome, const View& view) {
                   SetHeader(view, response);
                   FillResults(outcome.reply, response);
                   return absl::OkStatus();
                 });
  }
  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext* context,
                                  const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override {
    const Admission admission =
        gate_.Admit(*context, Rpc::kStoreAwait,
                    AccessObject::Of(JobId(request->job()), Generation(request->generation())));
    auto wait = ToWait(*request, response);
    if (!wait.ok()) return Refuse(admission, context, wait.status());
    return Wait(admission, std::move(wait->topics), BoundedWait(request->timeout()),
                std::move(wait->answer), std::move(wait->blocked));
  }
  grpc::ServerBidiReactor<v1::ParkRequest, v1::ParkResponse>* Park(
      grpc::CallbackServerContext* context) override {
    const auto prepare = [this](const v1::AwaitRequest& request, v1::AwaitResponse* response) {
      return ToWait(request, response);
    };
    auto* call = new ParkCall(gate_.Admit(*context, Rpc::kStorePark), prepare, ParkCall::Limits());
    call->Start();
    return call;
  }
  grpc::ServerUnaryReactor* ListWaiters(grpc::CallbackServerContext* context,
                                        const v1::ListWaitersRequest* request,
                                        v1::ListWaitersResponse* response) override {
    const JobId id(request->job());
    const Admission admission = gate_.Admit(*context, Rpc::kStoreListWaiters, AccessObject::Of(id));
    return Ask(admission, context, [=, this](const View& view) {
      const core::Job* job = view.coordinator.job(id);
      if (job == nullptr) return core::UnknownJob(id);
      SetHeader(view, response);
      FillWaiters(*job, view, callers_, response);
      return absl::OkStatus();
    });
  }

 private:
  // Errors: InvalidArgument the request cannot be awaited.
  absl::StatusOr<StoreWait> ToWait(const v1::AwaitRequest& request, v1::AwaitResponse* response) {
    DP_ASSIGN_OR_RETURN(BlockedCall call, ToCall(request));
    DP_RETURN_IF_ERROR(AwaitedKeys(call.reads).status());
    std::vector<core::Topic> topics = StoreTopics(call.job, call.reads);
    const auto reads = std::make_shared<ParkedAwait>(call, request, callers_, response);
    const AccessObject object = AccessObject::Of(call.job, call.generation);
    return StoreWait{std::move(call), std::move(topics),
                     [reads](const View& view, bool last) { return reads->Ask(view, last); },
                     object};
  }

  Gate& gate_;
  StoreCallers& callers_;  // used on the driver's thread
  ExecuteMessageAllocator execute_messages_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeStoreService(Gate& gate, StoreCallers& callers) {
  return std::make_unique<StoreService>(gate, callers);
}

}  // namespace dp::server
