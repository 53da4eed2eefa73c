#include "worker/engine/collectives/nccl/nccl_messages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// As NcclPipeline: nobody wakes the thread.
constexpr absl::Duration kMessagePoll = absl::Microseconds(50);

std::shared_ptr<NcclMessage> AsNcclMessage(const MessageCarrier::Handle& message) {
  return std::static_pointer_cast<NcclMessage>(message);
}

}  // namespace

void NcclMessages::Called(const Handle& message) {
  awaiting_input_.push_back(AsNcclMessage(message));
}

void NcclMessages::Met(Id id, const Handle& message, Effects* fx) {
  const Message& call = message->message();
  if (call.bytes() == 0) return fx->ended.push_back({id, absl::OkStatus()});
  NcclLane& lane = LaneOf(call.peer, call.sends);
  lane.Push(id, AsNcclMessage(message));
  if (!call.sends || lane.joined()) return;
  if (absl::Status opened = OpenLane(call.peer, lane, fx); !opened.ok())
    fx->ended.push_back({id, lane.Named(opened)});
}

NcclLane& NcclMessages::LaneOf(int peer, bool sends) {
  return lanes_.try_emplace({peer, sends}, parts_.api, parts_.aborts, peer, sends).first->second;
}

absl::Status NcclMessages::ChooseDevice() {
  if (std::exchange(device_chosen_, true)) return absl::OkStatus();
  return parts_.api.UseDevice(parts_.device);
}

absl::Status NcclMessages::OpenLane(int peer, NcclLane& lane, Effects* fx) {
  DP_RETURN_IF_ERROR(ChooseDevice());
  DP_ASSIGN_OR_RETURN(const std::string id, parts_.api.UniqueId());
  fx->texts.push_back({peer, id});
  return lane.Join(id, parts_.tuning);
}

absl::Status NcclMessages::Heard(int peer, const std::string& text, Effects* fx) {
  const auto found = lanes_.find({peer, false});
  if (found == lanes_.end() || found->second.joined() || found->second.idle())
    return absl::InternalError(absl::StrCat("rank ", peer, " sent an id that nobody awaits"));
  NcclLane& lane = found->second;
  absl::Status joined = ChooseDevice();
  if (joined.ok()) joined = lane.Join(text, parts_.tuning);
  if (!joined.ok()) fx->ended.push_back({0, lane.Named(joined)});
  return absl::OkStatus();
}

absl::Duration NcclMessages::Step(Effects* fx) {
  const absl::Time now = parts_.clock.Now();
  if (absl::Status seen = SeeInputs(now); !seen.ok()) fx->ended.push_back({0, std::move(seen)});
  absl::Duration sleep = awaiting_input_.empty() ? absl::InfiniteDuration() : parts_.interval;
  for (auto& [end, lane] : lanes_) {
    std::vector<Id> ended;
    absl::Status status = lane.Step(now, &ended);
    for (const Id id : ended) fx->ended.push_back({id, absl::OkStatus()});
    if (!status.ok()) fx->ended.push_back({0, std::move(status)});
    if (!lane.idle()) sleep = kMessagePoll;
  }
  return sleep;
}

absl::Status NcclMessages::SeeInputs(absl::Time now) {
  if (awaiting_input_.empty()) return absl::OkStatus();
  absl::Status failed = ChooseDevice();
  std::erase_if(awaiting_input_, [&](const auto& message) {
    if (message->done()) return true;
    const absl::StatusOr<bool> there = parts_.api.Passed(message->computed().get());
    if (!there.ok())
      failed = absl::Status(there.status().code(),
                            absl::StrCat(message->name(), ": ", there.status().message()));
    if (there.ok() && *there) message->InputIsThere(now);
    return there.ok() && *there;
  });
  return failed;
}

bool NcclMessages::Leave() {
  bool left = true;
  for (auto& [end, lane] : lanes_) left = lane.Leave() && left;
  return left;
}

void NcclMessages::Stop() {
  lanes_.clear();
  awaiting_input_.clear();
}

}  // namespace dp::engine
