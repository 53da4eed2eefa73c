#include "worker/engine/collectives/mpi/mpi_group.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/status.h"
#include "worker/engine/collectives/exchange/exchange_group.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/mpi/mpi_exchanger.h"
#include "worker/engine/collectives/mpi/mpi_process.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

// As a rank tells it to its peers in the store.
std::string Encode(const MpiRank& rank) { return absl::StrCat(rank.process, " ", rank.first_tag); }

absl::StatusOr<MpiRank> DecodeMpiRank(const std::string& card) {
  MpiRank rank;
  const std::vector<std::string> words = absl::StrSplit(card, ' ');
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &rank.process) ||
      !absl::SimpleAtoi(words[1], &rank.first_tag))
    return absl::InternalError(absl::StrCat("'", card, "' is no place in MPI's world"));
  return rank;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectMpi(Store& store, int rank, int size,
                                                  const MpiOptions& options) {
  DP_ASSIGN_OR_RETURN(MpiProcess* const process, MpiProcess::Start());
  DP_ASSIGN_OR_RETURN(const int tag, process->ReserveTags(MpiExchanger::TagsFor(size)));
  const absl::Time deadline = Clock::Steady().Now() + options.connect_timeout;
  std::vector<int> missing;
  const auto cards = AwaitRanks(
      store, "mpi", rank, size, Encode({process->place().rank, tag}),
      [&] { return Clock::Steady().Now() >= deadline; }, &missing);
  if (absl::IsAborted(cards.status()))
    return DidNotArrive("connect", missing, options.connect_timeout);
  DP_RETURN_IF_ERROR(cards.status());
  std::vector<MpiRank> ranks;
  for (const std::string& card : *cards) {
    DP_ASSIGN_OR_RETURN(ranks.emplace_back(), DecodeMpiRank(card));
  }
  return ConnectExchange(std::make_unique<MpiExchanger>(*process, rank, std::move(ranks)), rank,
                         size, options.group);
}

}  // namespace dp::engine
