#include "worker/agent/connected_rank.h"

#include <unistd.h>

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

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

uint16_t PortOf(absl::string_view address) {
  unsigned port = 0;
  const size_t colon = address.rfind(':');
  if (colon == address.npos || !absl::SimpleHexAtoi(address.substr(colon + 1), &port)) return 0;
  return static_cast<uint16_t>(port);
}

// What descriptors of the client's end link to, "socket:[12345]"; empty when there is none.
std::string ClientSocket(const std::string& table, const LocalConnection& connection) {
  std::ifstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    // Number, both addresses with their ports, state, queues, timer, retransmits, user, timeout,
    // inode.
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < 10) continue;
    if (PortOf(fields[1]) == connection.client_port && PortOf(fields[2]) == connection.server_port)
      return absl::StrCat("socket:[", fields[9], "]");
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
  std::string socket = ClientSocket("/proc/net/tcp", connection);
  // PyTorch reaches addresses of IPv4 by sockets of IPv6.
  if (socket.empty()) socket = ClientSocket("/proc/net/tcp6", connection);
  if (socket.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::optional<int> rank = RankIn(Contents(it->path() / "environ"), job);
    if (rank.has_value() && Holds(it->path(), socket)) return rank;
  }
  return std::nullopt;
}

}  // namespace dp::worker
