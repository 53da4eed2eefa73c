#include "worker/engine/collectives/hierarchical/host_meeting.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/engine/collectives/store_arrival.h"

namespace dp::engine {
namespace {

constexpr char kCardKeys[] = "hosts/card";
constexpr char kShareKeys[] = "hosts/share";

}  // namespace

std::vector<int> HostsOf(const std::vector<HostCard>& cards) {
  struct Host {
    int number = 0;
    int ranks = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Key, Host> hosts;
  std::vector<int> host_of;
  int next = 0;
  for (const HostCard& card : cards) {
    Host alone;
    Host& host = card.why_not.empty()
                     ? hosts[Key(card.layout, card.kernel, card.network, card.user)]
                     : alone;
    if (host.ranks % kSharingRanksMax == 0) host.number = next++;
    host.ranks += 1;
    host_of.push_back(host.number);
  }
  return host_of;
}

std::vector<int> WithHostsSplit(const std::vector<int>& host_of, const std::vector<int>& split) {
  std::map<int, int> numbers;  // by the number before
  std::vector<int> hosts;
  int next = 0;
  for (const int host : host_of) {
    const bool alone = std::count(split.begin(), split.end(), host) > 0;
    const auto known = numbers.find(host);
    if (!alone && known != numbers.end()) {
      hosts.push_back(known->second);
      continue;
    }
    numbers[host] = next;
    hosts.push_back(next++);
  }
  return hosts;
}

absl::StatusOr<std::vector<int>> MeetHosts(Store& store, int rank, int size,
                                           const std::string& apart, const HostWait& wait) {
  HostCard mine = ThisHost();
  absl::StrAppend(&mine.kernel, "/", apart);
  DP_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      AwaitRanks(store, kCardKeys, rank, size, Encode(mine), wait.stopped, wait.missing));
  std::vector<HostCard> cards;
  for (const std::string& text : texts) {
    DP_ASSIGN_OR_RETURN(cards.emplace_back(), DecodeHostCard(text));
  }
  return HostsOf(cards);
}

absl::StatusOr<std::vector<int>> AgreeWhoShares(Store& store, int rank,
                                                const std::vector<int>& host_of,
                                                const HostWait& wait, std::string* why_not) {
  const int size = static_cast<int>(host_of.size());
  DP_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      AwaitRanks(store, kShareKeys, rank, size, *why_not, wait.stopped, wait.missing));
  std::vector<int> split;
  for (int r = 0; r < size; ++r) {
    if (texts[r].empty()) continue;
    split.push_back(host_of[r]);
    if (why_not->empty()) *why_not = texts[r];
  }
  return WithHostsSplit(host_of, split);
}

}  // namespace dp::engine
