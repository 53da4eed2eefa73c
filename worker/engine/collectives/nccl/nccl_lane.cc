#include "worker/engine/collectives/nccl/nccl_lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// The two ranks of a lane's communicator.
constexpr int kSender = 0, kReceiver = 1, kLaneSize = 2;

}  // namespace

absl::Status NcclLane::Join(const std::string& id, const NcclTuning& tuning) {
  DP_ASSIGN_OR_RETURN(stream_, api_.MakeStream());
  DP_ASSIGN_OR_RETURN(communicator_,
                      api_.Join({&id, 1}, sends_ ? kSender : kReceiver, kLaneSize, tuning));
  return absl::OkStatus();
}

void NcclLane::Push(Id id, std::shared_ptr<NcclMessage> message) {
  if (!line_.empty()) message->WaitsInLine();
  line_.push_back({id, std::move(message)});
}

absl::Status NcclLane::Step(absl::Time now, std::vector<Id>* ended) {
  if (line_.empty() || communicator_ == nullptr) return absl::OkStatus();
  const absl::Status status = Advance(now, ended);
  return status.ok() ? status : Named(status);
}

// A message that has ended counts, even if the peer is gone since.
absl::Status NcclLane::Advance(absl::Time now, std::vector<Id>* ended) {
  DP_RETURN_IF_ERROR(EndFinished(now, ended));
  if (line_.empty()) return absl::OkStatus();
  if (!connected_) {
    DP_ASSIGN_OR_RETURN(connected_, api_.Joined(communicator_));
    if (!connected_) return absl::OkStatus();
  }
  DP_ASSIGN_OR_RETURN(const bool ready, api_.Ready(communicator_));
  return ready ? GiveNext() : absl::OkStatus();
}

absl::Status NcclLane::EndFinished(absl::Time now, std::vector<Id>* ended) {
  while (given_ > 0) {
    const NcclEvent result = line_.front().message->result();
    DP_ASSIGN_OR_RETURN(const bool done, api_.Passed(result.get()));
    if (!done) break;
    ended->push_back(line_.front().id);
    line_.pop_front();
    --given_;
    if (!line_.empty()) line_.front().message->IsFirst(now);
  }
  return absl::OkStatus();
}

// As NcclPipeline: an event that is recorded before the communicator is ready would not be behind
// the message on the stream.
absl::Status NcclLane::GiveNext() {
  while (given_ < line_.size()) {
    NcclMessage& message = *line_[given_].message;
    if (!giving_) DP_RETURN_IF_ERROR(Give(message));
    giving_ = true;
    DP_ASSIGN_OR_RETURN(const bool ready, api_.Ready(communicator_));
    if (!ready) break;
    DP_ASSIGN_OR_RETURN(NcclEvent result, RecordNcclEvent(api_, stream_));
    message.Given(std::move(result));
    giving_ = false;
    ++given_;
  }
  return absl::OkStatus();
}

absl::Status NcclLane::Give(const NcclMessage& pending) {
  DP_RETURN_IF_ERROR(api_.WaitOnStream(stream_, pending.computed().get()));
  const Message& message = pending.message();
  Collective exchange{.shape = {.kind = CallShape::Kind::kExchange, .type = message.type},
                      .sent = std::vector<absl::Span<const uint8_t>>(kLaneSize),
                      .received = std::vector<absl::Span<uint8_t>>(kLaneSize)};
  if (sends_) {
    exchange.sent[kReceiver] = message.sent;
  } else {
    exchange.received[kSender] = message.received;
  }
  return api_.Give(communicator_, exchange, stream_);
}

bool NcclLane::Leave() {
  if (communicator_ == nullptr) return true;
  const absl::Status begun =
      std::exchange(leaving_, true) ? absl::OkStatus() : api_.Finalize(communicator_);
  const absl::StatusOr<bool> left = begun.ok() ? api_.Ready(communicator_) : begun;
  if (left.ok() && !*left) return false;
  if (left.ok()) api_.Destroy(std::exchange(communicator_, nullptr));
  Stop();  // a peer that is gone needs no good order
  return true;
}

void NcclLane::Stop() {
  if (communicator_ != nullptr) aborts_.Begin(std::exchange(communicator_, nullptr));
  if (stream_ != nullptr) api_.FreeStream(std::exchange(stream_, nullptr));
  line_.clear();
  given_ = 0;
  giving_ = false;
}

absl::Status NcclLane::Named(const absl::Status& error) const {
  const std::string name =
      line_.empty() ? absl::StrCat("messages of rank ", peer_) : line_.front().message->name();
  if (absl::IsUnavailable(error))
    return WithMore(WentAway(name, {peer_}), absl::StrCat("; ", error.message()));
  return absl::Status(error.code(), absl::StrCat(name, ": ", error.message()));
}

}  // namespace dp::engine
