#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/links/pending_message.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_operations.h"

namespace dp::engine {

// A message between its call and its end over NCCL. Thread-safe, but for what only the links'
// thread uses.
class NcclMessage final : public PendingMessage {
 public:
  // `computed` passes when the rank's compute stream has reached the message.
  NcclMessage(const Message& message, absl::Duration timeout, NcclEvent computed);

  // For the caller: blocks until the message is on its stream or has ended. Returns the event that
  // passes with its end; null if there is nothing to wait for.
  absl::StatusOr<NcclEvent> AwaitGiven() DP_EXCLUDES(mu_);
  // Frees the events, too.
  void End(const absl::Status& status) override DP_EXCLUDES(mu_);

  // The rest is for the links' thread.
  const NcclEvent& computed() const { return computed_; }
  NcclEvent result() const DP_EXCLUDES(mu_);
  // It is on its stream; `result` passes with its end.
  void Given(NcclEvent result) DP_EXCLUDES(mu_);
  // The time limit counts from when the device has reached the message: its input is there, and
  // nothing is before it on its stream.
  void InputIsThere(absl::Time now);
  void WaitsInLine();
  void IsFirst(absl::Time now);

 private:
  void Count();

  NcclEvent computed_;  // freed with the message's end
  absl::Time input_at_ = absl::InfiniteFuture();
  absl::Time first_at_ = absl::InfinitePast();

  mutable Mutex mu_;
  CondVar moved_;
  bool given_ DP_GUARDED_BY(mu_) = false;
  NcclEvent result_ DP_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ DP_GUARDED_BY(mu_);
};

class NcclMessageWork final : public Work {
 public:
  NcclMessageWork(NcclApi& api, NcclApi::Stream compute_stream,
                  std::shared_ptr<NcclMessage> message)
      : api_(api), compute_stream_(compute_stream), message_(std::move(message)) {}

  absl::Status Wait() override { return message_->Wait(); }
  absl::Status WaitOnStream() override;
  bool done() const override { return message_->done(); }
  WorkTimes times() const override { return message_->times(); }

 private:
  NcclApi& api_;
  const NcclApi::Stream compute_stream_;
  const std::shared_ptr<NcclMessage> message_;
};

}  // namespace dp::engine
