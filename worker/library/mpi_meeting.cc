#include "worker/library/mpi_meeting.h"

#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "worker/engine/collectives/mpi/mpi_group.h"

namespace dp::library {
namespace {

std::string AddressOfThisHost(const engine::MpiPlace& place, const Variables& variables) {
  if (place.one_host) return "127.0.0.1";
  char name[256] = "";
  (void)gethostname(name, sizeof(name) - 1);  // an empty name is an error of the store
  return variables("DP_ADDRESS").value_or(name);
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
  distributed::TcpStoreOptions tcp{.host = AddressOfThisHost(place, variables),
                                   .port = 0,
                                   .is_master = place.rank == 0,
                                   .timeout = options.timeout};
  absl::StatusOr<OpenTcp> served = absl::UnavailableError("not served here");
  if (place.rank == 0) served = OpenTcpStore(tcp);
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
  const size_t colon = at.rfind(':');
  tcp.host = at.substr(0, colon);
  tcp.port = static_cast<uint16_t>(std::stoi(at.substr(colon + 1)));
  DP_ASSIGN_OR_RETURN(const OpenTcp opened, OpenTcpStore(tcp));
  return MpiMeeting{place.rank, place.size, opened.store};
}

}  // namespace dp::library
