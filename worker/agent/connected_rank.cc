#include "worker/agent/connected_rank.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "worker/agent/process_tree.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

// A client's socket is found at once; this is for one that the system does not tell of.
constexpr absl::Duration kFindPatience = absl::Milliseconds(200);

struct SocketEnd {
  std::string address;  // as the system writes it, of IPv4 where it stands for that
  uint16_t port = 0;

  bool operator==(const SocketEnd&) const = default;
};

struct LocalSocket {
  SocketEnd local, remote;
  std::string inode;
};

// "0100007F:1F90"
SocketEnd EndIn(absl::string_view text) {
  // PyTorch reaches addresses of IPv4 by sockets of IPv6.
  constexpr absl::string_view kMapped = "0000000000000000FFFF0000";
  unsigned port = 0;
  const size_t colon = text.rfind(':');
  if (colon == text.npos || !absl::SimpleHexAtoi(text.substr(colon + 1), &port)) return {};
  absl::string_view address = text.substr(0, colon);
  absl::ConsumePrefix(&address, kMapped);
  return {std::string(address), static_cast<uint16_t>(port)};
}

// Those of this host between the two ports.
void AddSockets(const std::string& table, const LocalConnection& ports,
                std::vector<LocalSocket>* sockets) {
  std::ifstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    // Number, both ends, state, queues, timer, retransmits, user, timeout, inode.
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < 10) continue;
    LocalSocket socket{EndIn(fields[1]), EndIn(fields[2]), std::string(fields[9])};
    const std::pair<uint16_t, uint16_t> found{socket.local.port, socket.remote.port};
    if (found == std::pair(ports.client_port, ports.server_port) ||
        found == std::pair(ports.server_port, ports.client_port)) {
      sockets->push_back(std::move(socket));
    }
  }
}

// What descriptors of the client's end link to, "socket:[12345]"; empty where the server's end is
// not on this host, too, or there are two.
std::string ClientSocket(const LocalConnection& ports) {
  std::vector<LocalSocket> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) AddSockets(table, ports, &sockets);
  const auto of_server = [&](const LocalSocket& socket) {
    return socket.local.port == ports.server_port;
  };
  const auto server = std::find_if(sockets.begin(), sockets.end(), of_server);
  if (server == sockets.end() || std::count_if(sockets.begin(), sockets.end(), of_server) > 1)
    return "";
  for (const LocalSocket& client : sockets) {
    if (client.local == server->remote && client.remote == server->local)
      return absl::StrCat("socket:[", client.inode, "]");
  }
  return "";
}

// The value of a variable in the environment that a process was started with.
std::optional<std::string> Variable(const std::string& environment, absl::string_view name) {
  for (const absl::string_view variable : absl::StrSplit(environment, '\0')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (pair.first == name) return std::string(pair.second);
  }
  return std::nullopt;
}

std::optional<int> RankIn(const std::string& environment, JobId job) {
  if (Variable(environment, "DP_JOB") != absl::StrCat(job.value())) return std::nullopt;
  int rank = 0;
  const bool told = absl::SimpleAtoi(Variable(environment, "DP_RANK").value_or(""), &rank);
  return told ? std::optional(rank) : std::nullopt;
}

std::string Contents(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool Holds(const fs::path& process, const std::string& socket) {
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(it->path(), gone) == socket) return true;
  }
  return false;
}

}  // namespace

std::optional<int> ConnectedRank(JobId job, const LocalConnection& connection) {
  const std::string socket = ClientSocket(connection);
  if (socket.empty()) return std::nullopt;
  for (const pid_t pid : Descendants(getpid())) {
    const fs::path process = absl::StrCat("/proc/", pid);
    const std::optional<int> rank = RankIn(Contents(process / "environ"), job);
    if (rank.has_value() && Holds(process, socket)) return rank;
  }
  return std::nullopt;
}

RankLookup::RankLookup(Find find) : find_(std::move(find)) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "rank_lookup");
}

RankLookup::~RankLookup() {
  MutexLock lock(mu_);
  ended_ = true;
  changed_.NotifyAll();
}

std::optional<int> RankLookup::Ask(uint16_t client_port) {
  MutexLock lock(mu_);
  if (asked_.has_value()) return std::nullopt;
  asked_ = client_port;
  answer_ = std::nullopt;
  changed_.NotifyAll();
  (void)changed_.WaitFor(mu_, kFindPatience, [this]() DP_REQUIRES(mu_) { return !asked_; });
  return answer_;
}

void RankLookup::Loop() {
  while (const std::optional<uint16_t> asked = Next()) {
    const std::optional<int> found = find_(*asked);
    MutexLock lock(mu_);
    answer_ = found;
    asked_ = std::nullopt;
    changed_.NotifyAll();
  }
}

std::optional<uint16_t> RankLookup::Next() {
  MutexLock lock(mu_);
  while (!asked_.has_value() && !ended_) changed_.Wait(mu_);
  return ended_ ? std::nullopt : asked_;
}

}  // namespace dp::worker
