// Answers of the kernel about sockets, and environments of ranks' processes: netlink messages of
// sock_diag, lines of /proc/net/tcp, /proc/PID/environ. An owner or an address is read from the
// answer alone, never from bytes behind it. A rank's processes may have any environment.
//
// The first byte chooses the parser.

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/host_port.h"
#include "base/limits.h"
#include "tests/fuzz/seeds.h"
#include "worker/agent/stores/peer_owner.h"
#include "worker/agent/stores/store_clients.h"

namespace dp::fuzz::sockets {
namespace {

template <typename Struct>
std::string BytesOf(const Struct& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// An answer with these attributes, for the socket of this inode.
std::string Answer(uint32_t inode, const std::string& attributes) {
  inet_diag_msg found{};
  found.idiag_uid = 1000;
  found.idiag_inode = inode;
  nlmsghdr header{};
  header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  header.nlmsg_len = sizeof(header) + sizeof(found) + attributes.size();
  return BytesOf(header) + BytesOf(found) + attributes;
}

std::string Attribute(uint16_t type, const std::string& value) {
  rtattr head{};
  head.rta_type = type;
  head.rta_len = sizeof(head) + value.size();
  std::string bytes = BytesOf(head) + value;
  bytes.resize(RTA_ALIGN(bytes.size()));
  return bytes;
}

void CheckAnswer(absl::string_view bytes) {
  const std::string exact(bytes);  // so that the sanitizer sees a read behind the end
  const auto owner = worker::OwnerInAnswer(exact);
  if (!owner.ok()) {
    DP_CHECK(absl::IsNotFound(owner.status()) || absl::IsInternal(owner.status()));
    return;
  }
  DP_CHECK(owner->socket.inode != 0);
  DP_CHECK(absl::StrContains(exact, BytesOf(static_cast<uint32_t>(owner->socket.inode))));
  DP_CHECK(absl::StrContains(exact, BytesOf(owner->user)));
  DP_CHECK(owner->socket.cgroup == 0 ||
           absl::StrContains(exact, BytesOf(uint64_t{owner->socket.cgroup})));
  // Bytes behind the answer's own end change nothing.
  const auto again = worker::OwnerInAnswer(exact + std::string(64, '\xff'));
  DP_CHECK(again.ok() && again->user == owner->user && again->socket.inode == owner->socket.inode &&
           again->socket.cgroup == owner->socket.cgroup);
}

void CheckTable(absl::string_view table) {
  constexpr uint16_t kPort = 0x7530;
  const worker::StorePortOf stores{{{JobId(7), Generation(2)}, kPort}};
  worker::StoreSockets found;
  size_t lines = 0;
  while (!table.empty()) {
    worker::AddStoreSocket(TakePart(&table, '\n'), stores, &found);
    DP_CHECK(found.size() <= ++lines);
  }
  for (const auto& [link, socket] : found) {
    DP_CHECK(absl::StartsWith(link, "socket:[") && absl::EndsWith(link, "]"));
    DP_CHECK(socket.port == kPort);
    if (!socket.end.empty()) DP_CHECK(ParseHostPort(socket.end).ok());
    DP_CHECK(socket.end.size() <= kSocketEndBytesMax);
  }
}

void CheckEnvironment(absl::string_view environment) {
  const auto rank = worker::RankInEnvironment(environment);
  if (!rank.has_value()) return;
  DP_CHECK(rank->rank >= 0 && rank->rank < kRanksMax && rank->end.empty());
  DP_CHECK(absl::StrContains(environment, "DP_JOB="));
  DP_CHECK(absl::StrContains(environment, "DP_GENERATION="));
  const std::string written = absl::StrCat("DP_JOB=", rank->job.value(), std::string(1, '\0'),
                                           "DP_GENERATION=", rank->generation.value(),
                                           std::string(1, '\0'), "DP_RANK=", rank->rank);
  DP_CHECK(worker::RankInEnvironment(written) == rank);
}

constexpr void (*kParsers[])(absl::string_view) = {CheckAnswer, CheckTable, CheckEnvironment};

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  const std::string cgroup = Attribute(INET_DIAG_CGROUP_ID, BytesOf(uint64_t{4711}));
  const std::string zero(1, '\0');
  return {
      Chosen(0, Answer(12345, "")),
      Chosen(0, Answer(12345, cgroup)),
      Chosen(0, Answer(12345, Attribute(INET_DIAG_SHUTDOWN, "\3") + cgroup)),
      Chosen(0, Answer(0, cgroup)),
      Chosen(1,
             "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
             "   0: 0100007F:9C40 0100007F:7530 01 00000000:00000000 00:00000000 00000000  1000 "
             "       0 54321 1 0000000000000000 20 4 30 10 -1\n"),
      Chosen(1,
             "   0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:7530 01 "
             "00000000:00000000 00:00000000 00000000  1000        0 54321 1 0 20 4 30 10 -1\n"),
      Chosen(2, absl::StrCat("PATH=/bin", zero, "DP_JOB=7", zero, "DP_GENERATION=2", zero,
                             "DP_RANK=3", zero))};
}

}  // namespace dp::fuzz::sockets
