#include "worker/library/mpi/mpi_meeting.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "worker/engine/collectives/mpi/mpi_group.h"
#include "worker/library/mpi/mpi_address.h"

namespace dp::library {
namespace {

absl::StatusOr<OpenTcp> ServeForMpi(const engine::MpiPlace& place, const Variables& variables,
                                    distributed::TcpStoreOptions* tcp) {
  tcp->host = "127.0.0.1";
  if (!place.one_host) {
    DP_ASSIGN_OR_RETURN(tcp->host, AddressForOtherHosts(HintsOfThisHost(variables)));
  }
  tcp->is_master = true;
  return OpenTcpStore(*tcp);
}

// The store at `address`, which rank 0 has told.
absl::StatusOr<OpenTcp> ReachMpiStore(const engine::MpiPlace& place, const std::string& address,
                                      distributed::TcpStoreOptions* tcp) {
  const size_t colon = address.rfind(':');
  tcp->host = address.substr(0, colon);
  tcp->port = static_cast<uint16_t>(std::stoi(address.substr(colon + 1)));
  auto opened = OpenTcpStore(*tcp);
  if (opened.ok() || place.one_host) return opened;
  return absl::Status(
      opened.status().code(),
      absl::StrCat(std::string(opened.status().message()),
                   "; choose the network of rank 0's host by 'mpirun --mca btl_tcp_if_include "
                   "INTERFACE', or set DP_ADDRESS there"));
}

absl::Status CheckSame(absl::string_view option, const std::optional<int>& given, int of_mpi) {
  if (!given || *given == of_mpi) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " is ", *given, ", and mpirun says ",
                                                 of_mpi, "; leave it out with backend mpi"));
}

}  // namespace

bool MeetsByMpi(const std::string& backend, const distributed::InitOptions& options,
                const Variables& variables) {
  return backend == "mpi" && options.init_method.empty() && !options.store &&
         !variables("MASTER_ADDR");
}

absl::StatusOr<MpiMeeting> OpenMpiMeeting(const distributed::InitOptions& options,
                                          const Variables& variables) {
  DP_ASSIGN_OR_RETURN(const engine::MpiPlace place, engine::StartMpi());
  DP_RETURN_IF_ERROR(CheckSame("world_size", options.world_size, place.size));
  DP_RETURN_IF_ERROR(CheckSame("rank", options.rank, place.rank));
  distributed::TcpStoreOptions tcp;
  tcp.timeout = options.timeout;
  absl::StatusOr<OpenTcp> served = absl::UnavailableError("not served here");
  if (place.rank == 0) served = ServeForMpi(place, variables, &tcp);
  const std::string own = served.ok() ? absl::StrCat(tcp.host, ":", served->port) : "";
  DP_ASSIGN_OR_RETURN(const std::string at,
                      engine::TextOfMpiRank0(own, absl::FromChrono(options.timeout)));
  if (place.rank == 0) {
    DP_RETURN_IF_ERROR(served.status());
    return MpiMeeting{place.rank, place.size, served->store};
  }
  if (at.empty())
    return absl::UnavailableError(
        "rank 0 cannot serve the store where the ranks meet; its own error says why");
  DP_ASSIGN_OR_RETURN(const OpenTcp opened, ReachMpiStore(place, at, &tcp));
  return MpiMeeting{place.rank, place.size, opened.store};
}

}  // namespace dp::library
