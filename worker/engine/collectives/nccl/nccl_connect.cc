#include "worker/engine/collectives/nccl/nccl_connect.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/links/link_doors.h"
#include "worker/engine/collectives/nccl/nccl_card.h"
#include "worker/engine/collectives/shm/host_card.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

// NCCL wakes nobody, so the caller polls. Joining takes tenths of seconds at best.
constexpr absl::Duration kPollEvery = absl::Milliseconds(1);

// A wait that a stop request cuts short.
class Pause {
 public:
  explicit Pause(std::stop_token stop)
      : stop_(std::move(stop)), wake_(stop_, [this] {
          MutexLock lock(mu_);
          stopped_.NotifyAll();
        }) {}

  void For(absl::Duration duration) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!stop_.stop_requested()) stopped_.WaitFor(mu_, duration);
  }

 private:
  Mutex mu_;
  CondVar stopped_;
  const std::stop_token stop_;
  std::stop_callback<std::function<void()>> wake_;  // last: uses the rest
};

// The same on ranks whose abstract sockets reach each other; empty: the kernel does not say.
std::string HostOfSockets() {
  const HostCard host = ThisHost();
  return host.why_not.empty() ? absl::StrCat(host.kernel, " ", host.network) : "";
}

class Joining {
 public:
  Joining(NcclApi& api, Store& store, int rank, int size, const NcclOptions& options,
          std::stop_token stop)
      : api_(api),
        store_(store),
        rank_(rank),
        size_(size),
        options_(options),
        stop_(stop),
        pause_(std::move(stop)),
        deadline_(Clock::Steady().Now() + options.connect_timeout) {}

  absl::StatusOr<NcclMembership> Run() {
    std::vector<int> missing;
    absl::StatusOr<NcclApi::Communicator> communicator = Join(&missing);
    if (communicator.ok()) return NcclMembership{*communicator, std::move(links_)};
    if (!Stopped()) return communicator.status();
    if (stop_.stop_requested())
      return AbortedBecause("connect", absl::CancelledError("its caller asked it to stop"));
    return DidNotArrive("connect", missing, options_.connect_timeout);
  }

 private:
  bool Stopped() const { return stop_.stop_requested() || Clock::Steady().Now() >= deadline_; }

  absl::StatusOr<NcclApi::Communicator> Join(std::vector<int>* missing) {
    DP_RETURN_IF_ERROR(api_.UseDevice(options_.device));
    DP_ASSIGN_OR_RETURN(const std::vector<std::string> ids, ExchangeIds(missing));
    DP_ASSIGN_OR_RETURN(const NcclApi::Communicator communicator,
                        api_.Join(ids, rank_, size_, options_.tuning));
    const absl::Status joined = AwaitJoined(communicator);
    if (joined.ok()) return communicator;
    api_.Abort(communicator);
    return joined;
  }

  absl::StatusOr<std::vector<std::string>> ExchangeIds(std::vector<int>* missing) {
    const std::vector<int> drawing =
        RanksThatDrawIds(size_, NcclIdCount(size_, options_.ranks_per_id));
    DP_ASSIGN_OR_RETURN(NcclCard mine, CardOfThisRank(api_, options_.device));
    std::optional<LinkDoors> doors;
    if (options_.messages) {
      doors.emplace(HostOfSockets(), options_.message_address, size_);
      mine.links = doors->Card();
    }
    if (std::binary_search(drawing.begin(), drawing.end(), rank_)) {
      DP_ASSIGN_OR_RETURN(mine.id, api_.UniqueId());
    }
    DP_ASSIGN_OR_RETURN(
        const std::vector<std::string> texts,
        AwaitRanks(
            store_, "nccl", rank_, size_, Encode(mine), [this] { return Stopped(); }, missing));
    std::vector<NcclCard> cards;
    for (const std::string& text : texts) {
      DP_ASSIGN_OR_RETURN(cards.emplace_back(), DecodeNcclCard(text));
    }
    DP_RETURN_IF_ERROR(CheckAGpuEach(cards));
    if (doors.has_value()) links_ = JoinDoors(*doors, cards);
    std::vector<std::string> ids;
    for (int rank : drawing) ids.push_back(cards[rank].id);
    return ids;
  }

  absl::StatusOr<LinkMembership> JoinDoors(LinkDoors& doors, const std::vector<NcclCard>& cards) {
    std::vector<std::string> links;
    for (const NcclCard& card : cards) links.push_back(card.links);
    return doors.Join(rank_, links);
  }

  absl::Status AwaitJoined(NcclApi::Communicator communicator) {
    for (;;) {
      DP_ASSIGN_OR_RETURN(const bool joined, api_.Joined(communicator));
      if (joined) return absl::OkStatus();
      if (Stopped()) return absl::AbortedError("stopped");
      pause_.For(kPollEvery);
    }
  }

  NcclApi& api_;
  Store& store_;
  const int rank_;
  const int size_;
  const NcclOptions& options_;
  const std::stop_token stop_;
  Pause pause_;
  const absl::Time deadline_;
  absl::StatusOr<LinkMembership> links_ =
      absl::UnimplementedError("this group was opened without messages between two ranks");
};

}  // namespace

absl::StatusOr<NcclMembership> JoinCommunicator(NcclApi& api, Store& store, int rank, int size,
                                                const NcclOptions& options, std::stop_token stop) {
  return Joining(api, store, rank, size, options, std::move(stop)).Run();
}

int NcclIdCount(int size, int ranks_per_id) {
  DP_CHECK(size > 0 && ranks_per_id > 0);
  return (size + ranks_per_id - 1) / ranks_per_id;
}

std::vector<int> RanksThatDrawIds(int size, int ids) {
  DP_CHECK(ids > 0 && ids <= size);
  const int share = size / ids;
  const int larger = size % ids;
  std::vector<int> ranks;
  for (int i = 0, first = 0; i < ids; ++i) {
    ranks.push_back(first);
    first += i < larger ? share + 1 : share;
  }
  return ranks;
}

}  // namespace dp::engine
