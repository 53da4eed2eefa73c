#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "dp/v1/store.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/driver/driver.h"

namespace dp::server {

// A wait in a store, before it is parked.
struct StoreWait {
  // As the answer of Wait (call.h); fills in a response.
  using Answer = std::function<std::optional<absl::Status>(const View&, bool last)>;

  BlockedCall blocked;
  std::vector<core::Topic> topics;
  Answer answer;
  AccessObject object = {};
};

// One Park: many waits over one stream. Limits bounds the open waits, and the answers that the
// client has not taken. The next message is read once the driver has taken the waits of the last
// one. A client with many waits therefore does not fill the driver's queue. The stream has one more
// wait, without a topic, which reports the coordinator's end.
//
// Reactions run on gRPC's threads, questions on the driver's. One thread at a time acts on the
// stream. The call finishes once it must end and no wait is open. Deletes itself when gRPC is done
// with it.
class ParkCall final : public grpc::ServerBidiReactor<v1::ParkRequest, v1::ParkResponse> {
 public:
  struct Limits {
    // A daemon with 10,000 connections, and more; as many as one job may have (Waiters).
    size_t waits = 16'384;
    size_t bytes = size_t{64} << 20;  // of the requests of these waits
    // Bytes of the answers not yet taken: above the limit of a batch, below the limit of a message.
    size_t unsent_bytes = size_t{16} << 20;
  };
  // Turns a request into a wait. The wait fills in the response, which outlives it.
  using Prepare =
      std::function<absl::StatusOr<StoreWait>(const v1::AwaitRequest&, v1::AwaitResponse*)>;

  ParkCall(const Admission& admission, Prepare prepare, const Limits& limits);

  // Called once, before gRPC has the call.
  void Start() DP_EXCLUDES(mu_);

  void OnReadDone(bool ok) override DP_EXCLUDES(mu_);
  void OnWriteDone(bool ok) override DP_EXCLUDES(mu_);
  void OnCancel() override DP_EXCLUDES(mu_) { ClientGone(); }
  void OnDone() override { delete this; }

 private:
  struct Parked {
    uint64_t id = 0;
    JobId job;
    Waiters::Ticket ticket = 0;
    size_t bytes = 0;
    bool standing = false;       // its question has been asked once
    v1::AwaitResponse response;  // used on the driver's thread
  };
  struct Unsent {
    v1::ParkedAnswer answer;
    size_t bytes = 0;
  };
  enum class Step { kRest, kRead, kWrite, kFinish };

  void Begin(const v1::ParkedWait& wait) DP_EXCLUDES(mu_);
  bool Admit(const std::shared_ptr<Parked>& parked, const absl::Status& prepared) DP_EXCLUDES(mu_);
  void GiveUp(const v1::ParkRequest& request) DP_EXCLUDES(mu_);
  void ClientGone() DP_EXCLUDES(mu_);
  // The question of a wait, and that of the stream's own wait.
  bool Asked(Parked& parked, const StoreWait::Answer& answer, Waiters::Wake wake, const View& view)
      DP_EXCLUDES(mu_);
  bool AskedForEnd(Waiters::Wake wake, const View& view) DP_EXCLUDES(mu_);

  absl::Status CheckRoom(size_t bytes) const DP_REQUIRES(mu_);
  void Stands(Parked& parked) DP_REQUIRES(mu_);
  void Settle(Parked& parked, const absl::Status& status, Waiters::Wake wake) DP_REQUIRES(mu_);
  void Tell(uint64_t id, const absl::Status& status, v1::AwaitResponse* response) DP_REQUIRES(mu_);
  // Begins the end of the stream: no wait begins any more. The caller cancels the open waits.
  void BeginEnd(const absl::Status& status) DP_REQUIRES(mu_);
  std::vector<Waiters::Ticket> OpenTickets() const DP_REQUIRES(mu_);

  // Whether this thread must act now. If not, another thread acts, and the call may be gone as soon
  // as the lock is free.
  bool MayAct() DP_REQUIRES(mu_) { return !std::exchange(acting_, true); }
  void Act() DP_EXCLUDES(mu_);
  Step NextStep() DP_REQUIRES(mu_);
  bool MayRead() const DP_REQUIRES(mu_);
  bool MayFinish() const DP_REQUIRES(mu_);
  void TakeAnswers() DP_REQUIRES(mu_);

  const Admission admission_;
  const Prepare prepare_;
  const Limits limits_;
  const Waiters::Ticket own_ticket_;
  v1::ParkRequest request_;    // of the read in flight, then of its reaction
  v1::ParkResponse response_;  // of the write in flight

  Mutex mu_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Parked>> open_ DP_GUARDED_BY(mu_);
  size_t open_bytes_ DP_GUARDED_BY(mu_) = 0;
  size_t not_standing_ DP_GUARDED_BY(mu_) = 0;  // of those in open_
  bool own_open_ DP_GUARDED_BY(mu_) = true;
  std::deque<Unsent> unsent_ DP_GUARDED_BY(mu_);
  size_t unsent_bytes_ DP_GUARDED_BY(mu_) = 0;   // includes the write in flight
  size_t writing_bytes_ DP_GUARDED_BY(mu_) = 0;  // of the write in flight
  bool reading_ DP_GUARDED_BY(mu_) = false;
  bool writing_ DP_GUARDED_BY(mu_) = false;
  bool acting_ DP_GUARDED_BY(mu_) = false;  // stays true once the call is finished
  bool ending_ DP_GUARDED_BY(mu_) = false;
  absl::Status end_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::server
