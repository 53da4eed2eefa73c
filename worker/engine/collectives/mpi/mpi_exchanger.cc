#include "worker/engine/collectives/mpi/mpi_exchanger.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// MPI counts bytes in an int.
constexpr size_t kMessageBytes = size_t{1} << 30;
// After an error: how long peers may take to end what they have begun to send, and MPI the rest.
constexpr absl::Duration kPeersEndWithin = absl::Milliseconds(500);
constexpr absl::Duration kMpiEndsWithin = absl::Milliseconds(100);

}  // namespace

MpiExchanger::MpiExchanger(MpiProcess& mpi, int rank, std::vector<MpiRank> ranks)
    : mpi_(mpi),
      rank_(rank),
      ranks_(std::move(ranks)),
      taken_(ranks_.size()),
      given_(ranks_.size()),
      awaited_(ranks_.size()),
      told_(ranks_.size()),
      causes_(ranks_.size(), -1),
      farewells_(ranks_.size(), MPI_REQUEST_NULL) {
  // An error shows in the first exchange too.
  (void)mpi_.Call([this] {
    for (int r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      const int result = MPI_Irecv(&causes_[r], 1, MPI_INT, ranks_[r].process,
                                   TagOf(rank_, Tags::kFarewells, r), mpi_.world(), &farewells_[r]);
      if (result != MPI_SUCCESS) return result;
    }
    return MPI_SUCCESS;
  });
  mpi_.AddUser(this);
}

MpiExchanger::~MpiExchanger() {
  mpi_.RemoveUser(this);
  (void)mpi_.Call([this] {  // a process without MPI has nobody to tell
    EndUse();
    return MPI_SUCCESS;
  });
}

int MpiExchanger::TagOf(int to, Tags tags, int from) const {
  return ranks_[to].first_tag + static_cast<int>(tags) * size() + from;
}

void MpiExchanger::Begin(uint64_t number, const CallShape& shape) {
  number_ = number;
  hash_ = HashOf(shape);
}

absl::Status MpiExchanger::Exchange(const Sent& sent, const Received& received) {
  absl::Status status = mpi_.Call([&] { return BeginAll(sent, received); });
  pace_.Restart();
  const auto over = [this] { return done() && strange_.empty(); };
  while (status.ok() && !over()) {
    const size_t before = transfers_.size();
    status = Advance();
    if (transfers_.size() != before) pace_.Restart();
    if (status.ok() && !over()) pace_.Wait();
  }
  if (!status.ok()) EndTransfers(status);
  return status;
}

absl::Status MpiExchanger::Advance() {
  if (interrupted_) return WithMissing(absl::DeadlineExceededError("interrupted"), Awaited());
  // The farewells come behind the pieces that their ranks have sent.
  DP_RETURN_IF_ERROR(mpi_.Call([this] { return LookForFarewells(); }));
  DP_RETURN_IF_ERROR(mpi_.Call([this] { return Look(); }));
  for (const int rank : Awaited())
    if (IsGone(rank))
      return WithGone(absl::UnavailableError(absl::StrCat(RankNames(Gone()), " went away")),
                      Gone());
  return absl::OkStatus();
}

void MpiExchanger::Interrupt() {
  interrupted_ = true;
  pace_.Ring();
}

void MpiExchanger::InterruptDifferingCalls() {
  calls_differ_ = true;
  Interrupt();
}

int MpiExchanger::BeginAll(const Sent& sent, const Received& received) {
  for (int r = 0; r < size(); ++r) {
    const int result = received[r].empty() ? MPI_SUCCESS : BeginReceive(r, received[r]);
    if (result != MPI_SUCCESS) return result;
  }
  for (int r = 0; r < size(); ++r) {
    const int result = sent[r].empty() ? MPI_SUCCESS : BeginSend(r, sent[r]);
    if (result != MPI_SUCCESS) return result;
  }
  return MPI_SUCCESS;
}

int MpiExchanger::BeginReceive(int peer, absl::Span<uint8_t> piece) {
  auto* const head = reinterpret_cast<uint8_t*>(&taken_[peer]);
  int result = Post({Kind::kTakeHead, peer, {head, sizeof(Head)}, piece});
  if (result != MPI_SUCCESS || piece.size() <= kShortBytes) return result;
  result = PostParts(Kind::kReceive, peer, piece);
  told_[peer] = AboutPiece(piece.size());
  const auto* const told = reinterpret_cast<const uint8_t*>(&told_[peer]);
  return result == MPI_SUCCESS ? Post({Kind::kTold, peer, {told, sizeof(About)}}) : result;
}

// MPI keeps a copy of messages as short as a head, so that sending one never waits for its
// receiver.
int MpiExchanger::BeginSend(int peer, absl::Span<const uint8_t> piece) {
  Head& head = given_[peer];
  const size_t in_head = piece.size() <= kShortBytes ? piece.size() : 0;
  head.about = AboutPiece(piece.size());
  std::copy_n(piece.data(), in_head, head.piece);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&head);
  const int result = Post({Kind::kGiveHead, peer, {bytes, sizeof(head.about) + in_head}});
  if (result != MPI_SUCCESS || in_head > 0) return result;
  auto* const awaited = reinterpret_cast<uint8_t*>(&awaited_[peer]);
  return Post({Kind::kReadiness, peer, {awaited, sizeof(About)}, piece});
}

int MpiExchanger::PostParts(Kind kind, int peer, absl::Span<const uint8_t> piece) {
  for (size_t begin = 0; begin < piece.size(); begin += kMessageBytes) {
    const int result = Post({kind, peer, piece.subspan(begin, kMessageBytes)});
    if (result != MPI_SUCCESS) return result;
  }
  return MPI_SUCCESS;
}

int MpiExchanger::Post(const Transfer& transfer) {
  const Kind kind = transfer.kind;
  const int peer = transfer.peer, process = ranks_[peer].process;
  const bool sends = kind == Kind::kGiveHead || kind == Kind::kSend || kind == Kind::kTold;
  Tags tags = Tags::kReadiness;
  if (kind == Kind::kTakeHead || kind == Kind::kGiveHead) tags = Tags::kHeads;
  if (kind == Kind::kReceive || kind == Kind::kSend) tags = Tags::kParts;
  const int tag = sends ? TagOf(peer, tags, rank_) : TagOf(rank_, tags, peer);
  auto* const bytes = const_cast<uint8_t*>(transfer.bytes.data());
  const int count = static_cast<int>(transfer.bytes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = sends
                         ? MPI_Isend(bytes, count, MPI_BYTE, process, tag, mpi_.world(), &request)
                         : MPI_Irecv(bytes, count, MPI_BYTE, process, tag, mpi_.world(), &request);
  if (result != MPI_SUCCESS) return result;
  transfers_.push_back(transfer);
  requests_.push_back(request);
  return MPI_SUCCESS;
}

int MpiExchanger::Look() {
  const int in_flight = static_cast<int>(requests_.size());
  std::vector<int> places(requests_.size());
  std::vector<MPI_Status> statuses(requests_.size());
  int ended = 0;
  const int result =
      MPI_Testsome(in_flight, requests_.data(), &ended, places.data(), statuses.data());
  if (result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS) return result;
  if (ended == MPI_UNDEFINED) ended = 0;
  std::vector<Transfer> ready;
  for (int i = 0; i < ended; ++i) {
    const Transfer& transfer = transfers_[places[i]];
    int error = MPI_SUCCESS;
    if (result == MPI_ERR_IN_STATUS && statuses[i].MPI_ERROR != MPI_SUCCESS)
      MPI_Error_class(statuses[i].MPI_ERROR, &error);
    // Only heads tell sizes in every case.
    if (error != MPI_SUCCESS && error != MPI_ERR_TRUNCATE) return statuses[i].MPI_ERROR;
    if (transfer.kind == Kind::kTakeHead) TakeHead(transfer);
    if (transfer.kind == Kind::kReadiness && !HasSaidFarewell(transfer.peer) &&
        !IsStrange(awaited_[transfer.peer], transfer))
      ready.push_back(transfer);
  }
  ForgetEnded();
  for (const Transfer& transfer : ready) {
    const int begun = PostParts(Kind::kSend, transfer.peer, transfer.piece);
    if (begun != MPI_SUCCESS) return begun;
  }
  return MPI_SUCCESS;
}

void MpiExchanger::TakeHead(const Transfer& transfer) {
  const Head& head = taken_[transfer.peer];
  if (IsStrange(head.about, transfer) || head.about.bytes > kShortBytes) return;
  std::copy_n(head.piece, head.about.bytes, const_cast<uint8_t*>(transfer.piece.data()));
}

bool MpiExchanger::IsStrange(const About& about, const Transfer& transfer) {
  const bool strange = about != AboutPiece(transfer.piece.size());
  if (strange) strange_.push_back(transfer.peer);
  return strange;
}

void MpiExchanger::ForgetEnded() {
  size_t kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    transfers_[kept++] = transfers_[i];
  }
  requests_.resize(kept);
  transfers_.resize(kept);
}

int MpiExchanger::LookForFarewells() {
  for (int r = 0; r < size(); ++r) {
    if (r == rank_ || HasSaidFarewell(r)) continue;
    int came = 0;
    const int result = MPI_Test(&farewells_[r], &came, MPI_STATUS_IGNORE);
    if (result != MPI_SUCCESS) return result;
  }
  return MPI_SUCCESS;
}

bool MpiExchanger::IsWait(Kind kind) {
  return kind == Kind::kTakeHead || kind == Kind::kReceive || kind == Kind::kReadiness;
}

std::vector<int> MpiExchanger::Awaited() const {
  std::vector<int> awaited = strange_;
  for (const Transfer& transfer : transfers_)
    if (IsWait(transfer.kind)) awaited.push_back(transfer.peer);
  std::sort(awaited.begin(), awaited.end());
  awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
  return awaited;
}

bool MpiExchanger::HasSaidFarewell(int rank) const {
  return rank != rank_ && farewells_[rank] == MPI_REQUEST_NULL;
}

bool MpiExchanger::IsGone(int rank) const {
  return HasSaidFarewell(rank) && causes_[rank] != kCallsDiffer;
}

std::vector<int> MpiExchanger::Gone() const {
  std::vector<int> gone;
  for (int r = 0; r < size(); ++r)
    if (IsGone(r)) gone.push_back(causes_[r]);
  std::sort(gone.begin(), gone.end());
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  return gone;
}

int MpiExchanger::CancelWaits(bool all) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    const Transfer& transfer = transfers_[i];
    const bool comes = transfer.kind == Kind::kReceive && !all && !HasSaidFarewell(transfer.peer);
    if (!IsWait(transfer.kind) || comes) continue;
    const int result = MPI_Cancel(&requests_[i]);
    if (result != MPI_SUCCESS) return result;
  }
  return MPI_SUCCESS;
}

void MpiExchanger::EndTransfers(const absl::Status& why) {
  const std::vector<int> gone = Gone();
  const int cause = calls_differ_ ? kCallsDiffer : gone.empty() ? rank_ : gone[0];
  mpi_.NoteFailure();
  (void)mpi_.Call([&] { return SayFarewell(cause); });
  EndWithin(kPeersEndWithin, false);
  EndWithin(kMpiEndsWithin, true);
  if (!done()) mpi_.GiveUp(why);
}

void MpiExchanger::EndWithin(absl::Duration time, bool all) {
  const absl::Time deadline = Clock::Steady().Now() + time;
  pace_.Restart();
  while (!done() && Clock::Steady().Now() < deadline) {
    const absl::Status looked = mpi_.Call([&] {
      int result = LookForFarewells(), ended = 0;
      if (result == MPI_SUCCESS) result = CancelWaits(all);
      if (result != MPI_SUCCESS) return result;
      std::vector<int> places(requests_.size());
      result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &ended,
                            places.data(), MPI_STATUSES_IGNORE);
      ForgetEnded();
      return result;
    });
    if (!looked.ok()) return;
    if (!done()) pace_.Wait();
  }
}

int MpiExchanger::SayFarewell(int cause) {
  if (own_cause_ >= 0) return MPI_SUCCESS;
  own_cause_ = cause;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    MPI_Request told = MPI_REQUEST_NULL;
    const int result = MPI_Isend(&own_cause_, 1, MPI_INT, ranks_[r].process,
                                 TagOf(r, Tags::kFarewells, rank_), mpi_.world(), &told);
    if (result != MPI_SUCCESS) return result;
    if (told != MPI_REQUEST_NULL) MPI_Request_free(&told);
  }
  return MPI_SUCCESS;
}

bool MpiExchanger::EndUse() {
  SayFarewell(rank_);
  for (MPI_Request& farewell : farewells_) {
    if (farewell == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&farewell);
    MPI_Wait(&farewell, MPI_STATUS_IGNORE);  // returns at once
  }
  return done();
}

}  // namespace dp::engine
