#include "worker/engine/collectives/shm/memory_meeting.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/shm/host_card.h"
#include "worker/engine/collectives/shm/local_socket.h"
#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

constexpr char kCards[] = "shm";
constexpr char kCalls[] = "shm/called";
constexpr char kWelcome[] = "welcome";
// The longest wait for rank 0's answer before the rank looks whether it must stop.
constexpr int kAnswerWaitMs = 250;
static_assert(kSharingRanksMax + 1 <= kFilesPerMessageMax);

// A caller's first message: its rank and rank 0's token, with the reading end of its life line.
std::string Greeting(int rank, absl::string_view token) { return absl::StrCat(rank, " ", token); }

class MemoryMeeting {
 public:
  MemoryMeeting(Store& store, int rank, int size, const std::function<bool()>& stopped,
                std::vector<int>* missing)
      : store_(store), rank_(rank), size_(size), stopped_(stopped), missing_(missing) {}

  absl::StatusOr<SharedMembership> Run() {
    DP_RETURN_IF_ERROR(ExchangeCards());
    absl::Status able = ListenToPeers();
    if (able.ok() && rank_ != 0) able = CallRank0();
    DP_RETURN_IF_ERROR(AgreeOnCalls(able));
    return rank_ == 0 ? WelcomeAll() : AwaitWelcome();
  }

 private:
  // Rank 0 listens before it publishes where, so nobody calls in vain.
  absl::Status ExchangeCards() {
    HostCard mine = ThisHost();
    absl::Status able = OpenLifeLine();
    if (able.ok() && rank_ == 0) able = Listen(mine);
    if (!able.ok()) mine.why_not = std::string(able.message());
    DP_ASSIGN_OR_RETURN(const std::vector<std::string> texts, AwaitAll(kCards, Encode(mine)));
    std::vector<HostCard> cards;
    for (const std::string& text : texts) {
      DP_ASSIGN_OR_RETURN(cards.emplace_back(), DecodeHostCard(text));
    }
    rank_0_ = cards[0];
    return CheckOneHost(cards);
  }

  absl::StatusOr<std::vector<std::string>> AwaitAll(absl::string_view prefix,
                                                    absl::string_view card) {
    return AwaitRanks(store_, prefix, rank_, size_, card, stopped_, missing_);
  }

  absl::Status OpenLifeLine() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return absl::UnavailableError(absl::StrCat("pipe2: ", std::strerror(errno)));
    life_line_ = FileDescriptor(ends[0]);
    own_life_ = FileDescriptor(ends[1]);
    return absl::OkStatus();
  }

  absl::Status Listen(HostCard& card) {
    card.socket = absl::StrCat("dp-shm-", Unguessable());
    card.token = Unguessable();
    DP_ASSIGN_OR_RETURN(file_, SharedSegment::MakeFile(size_));
    DP_ASSIGN_OR_RETURN(link_, ListenLocally(card.socket, size_));
    return absl::OkStatus();
  }

  // Nobody links before all have agreed on their calls, hence listen.
  absl::Status ListenToPeers() {
    std::vector<LinkPlace> places;
    for (int r = 0; r < size_; ++r)
      places.push_back({LocalLinkAddress(absl::StrCat(rank_0_.socket, "-", r)), rank_0_.token});
    DP_ASSIGN_OR_RETURN(FileDescriptor listener, ListenForLinks(places[rank_].address, size_));
    DP_ASSIGN_OR_RETURN(links_, JoinLinks(rank_, std::move(places), std::move(listener)));
    return absl::OkStatus();
  }

  // The call and the greeting wait at rank 0 until it looks. Nobody else than our own user gets the
  // token.
  absl::Status CallRank0() {
    DP_ASSIGN_OR_RETURN(link_, ConnectLocally(rank_0_.socket));
    DP_RETURN_IF_ERROR(CheckUser(link_));
    return SendMessage(link_, Greeting(rank_, rank_0_.token), {life_line_.get()});
  }

  static absl::Status CheckUser(const FileDescriptor& socket) {
    DP_ASSIGN_OR_RETURN(const uid_t user, UserAtOtherEnd(socket));
    if (user == geteuid()) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("the other end runs as user ", user, ", not ", geteuid()));
  }

  // All ranks learn whose call failed, so that all give up or none.
  absl::Status AgreeOnCalls(const absl::Status& mine) {
    DP_ASSIGN_OR_RETURN(const std::vector<std::string> failures, AwaitAll(kCalls, mine.message()));
    for (size_t r = 0; r < failures.size(); ++r)
      if (!failures[r].empty())
        return absl::FailedPreconditionError(absl::StrCat("the ranks cannot share memory: rank ", r,
                                                          " does not reach rank 0: ", failures[r]));
    return absl::OkStatus();
  }

  // The kernel queues one call more than the backlog, which is size_.
  int CallersWaitingMax() const { return size_ + 1; }

  // Every peer has called and greeted already, so it is among those in the queue. Other callers are
  // dropped, and so is whoever calls from now on.
  absl::StatusOr<SharedMembership> WelcomeAll() {
    std::vector<FileDescriptor> callers(size_), lines(size_);
    for (int calls = 0; calls < CallersWaitingMax(); ++calls) {
      absl::StatusOr<FileDescriptor> call = AcceptLocally(link_);
      if (absl::IsNotFound(call.status())) break;
      if (!call.ok()) return WithMore(call.status(), " (connect)");
      Admit(*std::move(call), callers, lines);
    }
    lines[0] = std::move(life_line_);
    std::vector<int> files{file_.get()}, gone;
    for (int r = 0; r < size_; ++r) {
      if (!lines[r].valid()) gone.push_back(r);
      files.push_back(lines[r].get());
    }
    if (!gone.empty()) return WentAway("connect", gone);
    for (int r = 1; r < size_; ++r) {
      // A peer that is gone already fails the first operation, which names it.
      (void)SendMessage(callers[r], kWelcome, files);
    }
    return Join(std::move(lines));
  }

  void Admit(FileDescriptor call, std::vector<FileDescriptor>& callers,
             std::vector<FileDescriptor>& lines) const {
    if (!CheckUser(call).ok()) return;
    auto greeting = ReceiveMessage(call);
    if (!greeting.ok() || greeting->files.size() != 1) return;
    const std::pair<std::string, std::string> words =
        absl::StrSplit(greeting->bytes, absl::MaxSplits(' ', 1));
    int rank = 0;
    if (!SameToken(words.second, rank_0_.token) || !absl::SimpleAtoi(words.first, &rank)) return;
    if (rank < 1 || rank >= size_ || callers[rank].valid()) return;
    callers[rank] = std::move(call);
    lines[rank] = std::move(greeting->files[0]);
  }

  absl::StatusOr<SharedMembership> AwaitWelcome() {
    for (;;) {
      auto welcome = ReceiveMessage(link_);
      if (welcome.ok()) return Enter(*std::move(welcome));
      if (absl::IsAborted(welcome.status())) return WentAway("connect", {0});
      if (!absl::IsNotFound(welcome.status())) return WithMore(welcome.status(), " (connect)");
      if (stopped_()) {
        missing_->push_back(0);
        return absl::AbortedError("stopped");
      }
      pollfd answer{link_.get(), POLLIN, 0};
      (void)poll(&answer, 1, kAnswerWaitMs);  // the loop looks again in any case
    }
  }

  absl::StatusOr<SharedMembership> Enter(LocalMessage welcome) {
    if (welcome.bytes != kWelcome || welcome.files.size() != static_cast<size_t>(size_) + 1)
      return absl::InternalError("connect: rank 0 sent another message than its welcome");
    file_ = std::move(welcome.files[0]);
    welcome.files.erase(welcome.files.begin());
    return Join(std::move(welcome.files));
  }

  absl::StatusOr<SharedMembership> Join(std::vector<FileDescriptor> lines) {
    DP_ASSIGN_OR_RETURN(SharedSegment segment, SharedSegment::Map(file_, size_));
    return SharedMembership{
        std::move(segment), {std::move(own_life_), std::move(lines)}, std::move(links_)};
  }

  Store& store_;
  const int rank_;
  const int size_;
  const std::function<bool()>& stopped_;
  std::vector<int>* const missing_;
  HostCard rank_0_;
  FileDescriptor life_line_, own_life_;  // the ends of this rank's life line
  FileDescriptor file_;                  // the segment's
  FileDescriptor link_;                  // rank 0's listener; another rank's call to it
  LinkMembership links_;
};

}  // namespace

absl::StatusOr<SharedMembership> MeetInMemory(Store& store, int rank, int size,
                                              const std::function<bool()>& stopped,
                                              std::vector<int>* missing) {
  DP_CHECK(size <= kSharingRanksMax);
  return MemoryMeeting(store, rank, size, stopped, missing).Run();
}

}  // namespace dp::engine
