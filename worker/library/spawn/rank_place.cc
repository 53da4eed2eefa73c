#include "worker/library/spawn/rank_place.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "store/wire/socket.h"

namespace dp::library {
namespace {

// As many as the members of a file store. A host has no room for more processes.
constexpr int kRanksMax = 100'000;

template <typename... Words>
absl::Status BadOption(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat("spawn: ", words...));
}

}  // namespace

absl::Status CheckSpawnOptions(const distributed::SpawnOptions& options, int nprocs) {
  if (nprocs < 1) return BadOption("nprocs is ", nprocs, "; give 1 or more");
  if (nprocs > kRanksMax)
    return absl::ResourceExhaustedError(
        absl::StrCat("spawn: nprocs is ", nprocs, "; give ", kRanksMax, " at most"));
  if (options.grace.count() < 0)
    return BadOption("grace is ", options.grace.count(), " ms; give 0 or more");
  const int64_t world_size = options.world_size.value_or(nprocs);
  if (options.first_rank < 0 || options.first_rank + int64_t{nprocs} > world_size)
    return BadOption("first_rank is ", options.first_rank, " with ", nprocs,
                     " ranks here, of world_size ", world_size,
                     "; the ranks of a host are first_rank to first_rank + nprocs - 1");
  if (options.master_addr.empty() != (options.master_port == 0))
    return BadOption(options.master_port == 0 ? "master_addr is given without master_port"
                                              : "master_port is given without master_addr",
                     "; give both, or none");
  if (world_size > nprocs && options.master_port == 0)
    return BadOption("world_size is ", world_size, " with ", nprocs,
                     " ranks here; give master_addr and master_port, where all hosts reach rank 0");
  return absl::OkStatus();
}

RankVariables VariablesOfRank(const distributed::SpawnOptions& options, int nprocs,
                              int local_rank) {
  return {{"RANK", absl::StrCat(options.first_rank + local_rank)},
          {"LOCAL_RANK", absl::StrCat(local_rank)},
          {"WORLD_SIZE", absl::StrCat(options.world_size.value_or(nprocs))},
          {"LOCAL_WORLD_SIZE", absl::StrCat(nprocs)},
          {"MASTER_ADDR", options.master_addr},
          {"MASTER_PORT", absl::StrCat(options.master_port)},
          // A launcher's store is that of this process, and not at the place above.
          {"TORCHELASTIC_USE_AGENT_STORE", std::nullopt}};
}

absl::StatusOr<ReservedPort> ReservedPort::Open() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!socket.valid() || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(socket.get(), any, size) != 0 || getsockname(socket.get(), any, &size) != 0)
    return wire::ErrnoStatus("spawn: a port of 127.0.0.1 where the ranks meet");
  return ReservedPort(std::move(socket), ntohs(address.sin_port));
}

}  // namespace dp::library
