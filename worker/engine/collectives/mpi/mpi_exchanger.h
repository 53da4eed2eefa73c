#pragma once

#include <mpi.h>

#include <atomic>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/exchange/exchange_group.h"
#include "worker/engine/collectives/mpi/mpi_process.h"
#include "worker/engine/collectives/mpi/poll_pace.h"

namespace dp::engine {

// Where a rank of a group receives. Several ranks of a group may be in one process.
struct MpiRank {
  int process = 0;    // its rank in MPI's world
  int first_tag = 0;  // of MpiExchanger::TagsFor(ranks)
};

// Moves bytes by MPI's messages between two processes. A head goes ahead of each piece, with its
// call and size, and with the piece itself if that is short. A long one is sent once its receiver
// has said for which it waits. No transfer is thus left in flight which this rank cannot end. A
// rank that leaves or fails says farewell to every peer, and names the rank that is the cause.
class MpiExchanger : public Exchanger, private MpiUser {
 public:
  static int TagsFor(int ranks) { return 4 * ranks; }

  MpiExchanger(MpiProcess& mpi, int rank, std::vector<MpiRank> ranks);
  ~MpiExchanger() override;

  void Begin(uint64_t number, const CallShape& shape) override;
  // Errors: DeadlineExceeded names the ranks whose pieces have not come when somebody interrupts.
  // Pieces of another call or size have not come.
  absl::Status Exchange(const Sent& sent, const Received& received) override;
  void Interrupt() override;
  void InterruptDifferingCalls() override;

 private:
  // Tags of messages to a rank, by their sender: at these times the number of ranks.
  enum class Tags { kHeads, kParts, kReadiness, kFarewells };

  static constexpr size_t kShortBytes = 500;
  struct About {
    bool operator==(const About&) const = default;

    uint64_t number = 0;  // of the call
    uint64_t hash = 0;    // of the call's shape
    uint64_t bytes = 0;   // of the piece
  };
  struct Head {
    About about;
    uint8_t piece[kShortBytes] = {};
  };

  enum class Kind {
    kTakeHead,
    kGiveHead,
    kReceive,    // a part of a long piece
    kSend,       // a part of a long piece
    kReadiness,  // of the peer, which says for which long piece it waits
    kTold,       // the peer knows for which this rank waits
  };
  struct Transfer {
    Kind kind = Kind::kTakeHead;
    int peer = 0;
    absl::Span<const uint8_t> bytes = {};
    // With kTakeHead where the piece goes, with kReadiness the piece to send.
    absl::Span<const uint8_t> piece = {};
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  int TagOf(int to, Tags tags, int from) const;

  // The following call MPI: they run within MpiProcess::Call, and return its results.
  int BeginAll(const Sent& sent, const Received& received);
  int BeginReceive(int peer, absl::Span<uint8_t> piece);
  int BeginSend(int peer, absl::Span<const uint8_t> piece);
  int PostParts(Kind kind, int peer, absl::Span<const uint8_t> piece);
  int Post(const Transfer& transfer);
  // Takes over what has ended.
  int Look();
  void TakeHead(const Transfer& transfer);
  bool IsStrange(const About& about, const Transfer& transfer);
  void ForgetEnded();
  int LookForFarewells();
  // Ends the waits for readiness and heads, and either `all` waits for parts or those for ranks
  // that have said farewell.
  int CancelWaits(bool all);
  int SayFarewell(int cause);
  bool EndUse() override;

  // Looks after the transfers once.
  absl::Status Advance();
  // After an error, because the memory is the caller's.
  void EndTransfers(const absl::Status& why);
  void EndWithin(absl::Duration time, bool all);
  About AboutPiece(size_t bytes) const { return {number_, hash_, bytes}; }
  // Whether it ends only by what a peer does.
  static bool IsWait(Kind kind);
  // The ranks whose pieces, or readiness, have not come.
  std::vector<int> Awaited() const;
  bool HasSaidFarewell(int rank) const;
  // Whether it has left or failed, and no peer will tell this rank more.
  bool IsGone(int rank) const;
  // The ranks that farewells name as their cause.
  std::vector<int> Gone() const;
  bool done() const { return transfers_.empty(); }

  MpiProcess& mpi_;
  const int rank_;
  const std::vector<MpiRank> ranks_;
  uint64_t number_ = 0, hash_ = 0;   // of the call
  std::vector<Transfer> transfers_;  // in flight, with requests_
  std::vector<MPI_Request> requests_;
  // By peer.
  std::vector<Head> taken_, given_;
  std::vector<About> awaited_, told_;
  std::vector<int> strange_;  // the ranks whose piece is of another call or size
  // The cause of a farewell where no rank is one: the peers wait until they know how calls differ.
  static constexpr int kCallsDiffer = -2;

  // By rank: the cause that its farewell names, and the wait for it, null once it has come.
  std::vector<int> causes_;
  std::vector<MPI_Request> farewells_;
  int own_cause_ = -1;  // of this rank's farewell; none yet
  std::atomic<bool> interrupted_ = false, calls_differ_ = false;
  PollPace pace_;
};

}  // namespace dp::engine
