#include "worker/engine/collectives/mpi/mpi_group.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "worker/engine/collectives/exchange/exchange_group.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/links/link_place.h"
#include "worker/engine/collectives/mpi/mpi_exchanger.h"
#include "worker/engine/collectives/mpi/mpi_process.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

// A rank as it tells itself to its peers in the store.
struct MpiCard {
  MpiRank rank;
  LinkPlace links;  // empty if it has none
};

std::string Encode(const MpiCard& card) {
  return absl::StrCat(card.rank.process, " ", card.rank.first_tag, " ",
                      card.links.token.empty() ? "" : Encode(card.links));
}

absl::StatusOr<MpiCard> DecodeMpiCard(const std::string& text) {
  MpiCard card;
  const std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 2));
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &card.rank.process) ||
      !absl::SimpleAtoi(words[1], &card.rank.first_tag))
    return absl::InternalError(absl::StrCat("'", text, "' is no place in MPI's world"));
  if (words[2].empty()) return card;
  DP_ASSIGN_OR_RETURN(card.links, DecodeLinkPlace(words[2]));
  return card;
}

absl::Status CannotListen(const std::string& address, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("this rank cannot take messages at ", address, " (",
                                               std::string(why.message()),
                                               "); DP_ADDRESS, if it is set, must be "
                                               "an address of this rank's own host"));
}

// Listens for messages, and writes to `place` where.
absl::StatusOr<FileDescriptor> Listen(bool one_host, const std::string& address, int size,
                                      LinkPlace* place) {
  absl::StatusOr<std::string> at =
      one_host ? LocalLinkAddress(Unguessable()) : NumericLinkAddress(address);
  DP_RETURN_IF_ERROR(at.status());
  absl::StatusOr<FileDescriptor> listener = ListenForLinks(*at, size);
  if (!listener.ok() && !one_host) return CannotListen(address, listener.status());
  DP_RETURN_IF_ERROR(listener.status());
  DP_ASSIGN_OR_RETURN(place->address, AddressOfListener(*listener));
  place->token = Unguessable();
  return listener;
}

absl::StatusOr<LinkMembership> LinksOf(int rank, const std::vector<MpiCard>& cards,
                                       absl::StatusOr<FileDescriptor> listener) {
  DP_RETURN_IF_ERROR(listener.status());
  std::vector<LinkPlace> places;
  for (size_t r = 0; r < cards.size(); ++r) {
    if (cards[r].links.token.empty())
      return absl::UnavailableError(absl::StrCat("rank ", r, " takes no messages"));
    places.push_back(cards[r].links);
  }
  return JoinLinks(rank, std::move(places), *std::move(listener));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectMpi(Store& store, int rank, int size,
                                                  const MpiOptions& options) {
  DP_ASSIGN_OR_RETURN(MpiProcess* const process, MpiProcess::Start());
  DP_ASSIGN_OR_RETURN(const int tag, process->ReserveTags(MpiExchanger::TagsFor(size)));
  const absl::Time deadline = Clock::Steady().Now() + options.connect_timeout;
  MpiCard own{{process->place().rank, tag}, {}};
  auto listener = Listen(process->place().one_host, options.address, size, &own.links);
  std::vector<int> missing;
  const auto texts = AwaitRanks(
      store, "mpi", rank, size, Encode(own), [&] { return Clock::Steady().Now() >= deadline; },
      &missing);
  if (absl::IsAborted(texts.status()))
    return DidNotArrive("connect", missing, options.connect_timeout);
  DP_RETURN_IF_ERROR(texts.status());
  std::vector<MpiCard> cards;
  std::vector<MpiRank> ranks;
  for (const std::string& text : *texts) {
    DP_ASSIGN_OR_RETURN(cards.emplace_back(), DecodeMpiCard(text));
    ranks.push_back(cards.back().rank);
  }
  return ConnectExchange(std::make_unique<MpiExchanger>(*process, rank, std::move(ranks)), rank,
                         size, options.group, LinksOf(rank, cards, std::move(listener)),
                         options.connect_timeout);
}

}  // namespace dp::engine
