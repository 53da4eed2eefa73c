#include "worker/engine/collectives/mpi/mpi_group.h"

namespace dp::engine {
namespace {

absl::Status WithoutMpi() { return absl::UnimplementedError("built without MPI"); }

}  // namespace

absl::StatusOr<MpiPlace> StartMpi() { return WithoutMpi(); }

absl::StatusOr<std::string> TextOfMpiRank0(const std::string&, absl::Duration) {
  return WithoutMpi();
}

absl::StatusOr<std::unique_ptr<Group>> ConnectMpi(Store&, int, int, const MpiOptions&) {
  return WithoutMpi();
}

}  // namespace dp::engine
