#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/engine/collectives/links/message_carrier.h"
#include "worker/engine/collectives/nccl/nccl_aborts.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_lane.h"
#include "worker/engine/collectives/nccl/nccl_message.h"

namespace dp::engine {

// Moves messages between GPUs (docs/collectives.md, "Messages over NCCL"). Each direction between
// two ranks is a lane, made when its first message has met. Its sender draws the unique id and
// tells it to the receiver.
class NcclMessages final : public MessageCarrier {
 public:
  struct Parts {
    NcclApi& api;
    NcclAborts& aborts;
    int device = 0;
    NcclTuning tuning;
    // How often it looks whether the input of a message is there.
    absl::Duration interval;
    const Clock& clock;
  };

  explicit NcclMessages(const Parts& parts) : parts_(parts) {}

  void Called(const Handle& message) override;
  void Met(Id id, const Handle& message, Effects* fx) override;
  absl::Status Heard(int peer, const std::string& text, Effects* fx) override;
  absl::Duration Step(Effects* fx) override;
  bool Leave() override;
  void Stop() override;

 private:
  // Once, for the links' thread.
  absl::Status ChooseDevice();
  NcclLane& LaneOf(int peer, bool sends);
  // Joins as sender.
  absl::Status OpenLane(int peer, NcclLane& lane, Effects* fx);
  absl::Status SeeInputs(absl::Time now);

  const Parts parts_;
  bool device_chosen_ = false;
  std::vector<std::shared_ptr<NcclMessage>> awaiting_input_;
  std::map<std::pair<int, bool>, NcclLane> lanes_;  // by peer, and whether this rank sends
};

}  // namespace dp::engine
