#include "worker/agent/stores/store_clients.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/socket_end.h"
#include "worker/agent/processes/process_tree.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kEstablished = "01";  // the state as the kernel writes it

struct HexEnd {
  absl::string_view address;  // words of 32 bits, each in the order of this host
  uint16_t port = 0;
};

// "0100007F:1F90"
std::optional<HexEnd> ParseHexEnd(absl::string_view text) {
  unsigned port = 0;
  const size_t colon = text.rfind(':');
  if (colon == text.npos || !absl::SimpleHexAtoi(text.substr(colon + 1), &port)) return {};
  if (port == 0 || port > UINT16_MAX) return {};
  return HexEnd{text.substr(0, colon), static_cast<uint16_t>(port)};
}

// Empty if this is no address of either family.
std::string ReadableEnd(const HexEnd& end) {
  constexpr size_t kWordDigits = 8;
  std::array<uint32_t, 4> words{};
  const size_t count = end.address.size() / kWordDigits;
  if (end.address.size() % kWordDigits != 0 || (count != 1 && count != words.size())) return "";
  for (size_t i = 0; i < count; ++i) {
    const absl::string_view word = end.address.substr(i * kWordDigits, kWordDigits);
    if (!absl::SimpleHexAtoi(word, &words[i])) return "";
  }
  if (count == 1) return SocketEnd(in_addr{words[0]}, end.port);
  in6_addr v6{};
  std::memcpy(&v6, words.data(), sizeof(v6));
  return SocketEnd(v6, end.port);
}

bool AnyAt(const StorePortOf& stores, uint16_t port) {
  return std::any_of(stores.begin(), stores.end(),
                     [port](const auto& store) { return store.second == port; });
}

// The value of a variable; empty if there is none.
absl::string_view Variable(absl::string_view environment, absl::string_view name) {
  for (const absl::string_view variable : absl::StrSplit(environment, '\0')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (pair.first == name) return pair.second;
  }
  return "";
}

template <typename Number>
bool ReadVariable(absl::string_view environment, absl::string_view name, Number* number) {
  return absl::SimpleAtoi(Variable(environment, name), number);
}

std::optional<StoreClient> RankOfProcess(const fs::path& process) {
  std::ifstream stream(process / "environ", std::ios::binary);
  return RankInEnvironment(std::string{std::istreambuf_iterator<char>(stream), {}});
}

std::set<std::string> LinksOfDescriptors(const fs::path& process) {
  std::set<std::string> links;
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    fs::path link = fs::read_symlink(it->path(), gone);
    if (!gone) links.insert(std::move(link));
  }
  return links;
}

}  // namespace

void AddStoreSocket(absl::string_view line, const StorePortOf& stores, StoreSockets* sockets) {
  // Number, both ends, state, queues, timer, retransmits, user, timeout, inode.
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (fields.size() < 10 || fields[3] != kEstablished) return;
  const std::optional<HexEnd> local = ParseHexEnd(fields[1]), remote = ParseHexEnd(fields[2]);
  if (!local.has_value() || !remote.has_value() || !AnyAt(stores, remote->port)) return;
  (*sockets)[absl::StrCat("socket:[", fields[9], "]")] = {ReadableEnd(*local), remote->port};
}

std::optional<StoreClient> RankInEnvironment(absl::string_view environment) {
  uint64_t job = 0, generation = 0;
  StoreClient rank;
  if (!ReadVariable(environment, "DP_JOB", &job) ||
      !ReadVariable(environment, "DP_GENERATION", &generation) ||
      !ReadVariable(environment, "DP_RANK", &rank.rank) || rank.rank < 0 ||
      rank.rank >= kRanksMax) {
    return std::nullopt;
  }
  rank.job = JobId(job);
  rank.generation = Generation(generation);
  return rank;
}

std::vector<StoreClient> StoreClientSearch::Find(const StorePortOf& stores) {
  StoreSockets sockets = SocketsTo(stores);
  if (sockets == sockets_ && stores == stores_) return found_;
  stores_ = stores;
  sockets_ = std::move(sockets);
  Search(stores);
  return found_;
}

StoreSockets StoreClientSearch::SocketsTo(const StorePortOf& stores) {
  StoreSockets sockets;
  if (stores.empty()) return sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) AddStoreSocket(line, stores, &sockets);
  }
  return sockets;
}

void StoreClientSearch::Search(const StorePortOf& stores) {
  found_.clear();
  if (sockets_.empty()) return;
  for (const pid_t pid : Descendants(getpid())) {
    const fs::path process = absl::StrCat("/proc/", pid);
    std::optional<StoreClient> rank = RankOfProcess(process);
    if (!rank.has_value()) continue;
    const auto store = stores.find({rank->job, rank->generation});
    if (store == stores.end()) continue;
    for (const std::string& link : LinksOfDescriptors(process)) {
      const auto socket = sockets_.find(link);
      if (socket == sockets_.end() || socket->second.port != store->second) continue;
      rank->end = socket->second.end;
      found_.push_back(*rank);
    }
  }
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
}

}  // namespace dp::worker
