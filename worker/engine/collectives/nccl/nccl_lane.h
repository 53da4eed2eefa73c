#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/engine/collectives/links/message_book.h"
#include "worker/engine/collectives/nccl/nccl_aborts.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_message.h"

namespace dp::engine {

// The messages from one rank to another that have met. They follow one another on a communicator of
// the two, with a stream of its own. Both ranks push them in the same order. Owned by one thread.
// Never blocks.
class NcclLane {
 public:
  using Id = MessageBook::Id;

  // The other end is at rank `peer`; this end sends or receives.
  NcclLane(NcclApi& api, NcclAborts& aborts, int peer, bool sends)
      : api_(api), aborts_(aborts), peer_(peer), sends_(sends) {}
  ~NcclLane() { Stop(); }
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;

  // Begins to join by the unique id that the sender has drawn. Call it once.
  absl::Status Join(const std::string& id, const NcclTuning& tuning);
  bool joined() const { return communicator_ != nullptr; }
  bool idle() const { return line_.empty(); }

  void Push(Id id, std::shared_ptr<NcclMessage> message);
  // Gives and ends what it can. `ended` gets the messages that have ended well. Errors: with the
  // name of the message that failed; Unavailable names the peer.
  absl::Status Step(absl::Time now, std::vector<Id>* ended);
  // Call it repeatedly on an idle lane: disconnects in good order. Returns whether that is done.
  bool Leave();
  // Begins to abort the communicator with what is on its stream.
  void Stop();
  // The same error with the name of the message that is first in line.
  absl::Status Named(const absl::Status& error) const;

 private:
  struct InLine {
    Id id = 0;
    std::shared_ptr<NcclMessage> message;
  };

  absl::Status Advance(absl::Time now, std::vector<Id>* ended);
  absl::Status EndFinished(absl::Time now, std::vector<Id>* ended);
  absl::Status GiveNext();
  absl::Status Give(const NcclMessage& message);

  NcclApi& api_;
  NcclAborts& aborts_;
  const int peer_;
  const bool sends_;
  NcclApi::Communicator communicator_ = nullptr;
  NcclApi::Stream stream_ = nullptr;
  bool connected_ = false;  // Join is no longer in progress
  bool leaving_ = false;
  std::deque<InLine> line_;  // not ended, in order
  size_t given_ = 0;         // messages at the head of line_ that the stream has
  bool giving_ = false;      // the next one is on its way to the stream
};

}  // namespace dp::engine
