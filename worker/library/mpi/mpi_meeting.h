#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "dp/distributed.h"
#include "worker/library/init_method.h"
#include "worker/library/open_store.h"

namespace dp::library {

// Whether the processes of mpirun meet without an init method: nothing says where else.
bool MeetsByMpi(const std::string& backend, const distributed::InitOptions& options,
                const Variables& variables);

struct MpiMeeting {
  int rank = 0;
  int world_size = 1;
  std::shared_ptr<OpenStore> store;
};
// Opens a store that rank 0 serves for the processes that mpirun has started. All of them call it.
// It is on 127.0.0.1 if they are on one host, else at AddressForOtherHosts of rank 0's host.
// Errors: those of engine::StartMpi, OpenTcpStore and AddressForOtherHosts; InvalidArgument the
// options give another place; Unavailable rank 0 cannot serve the store.
absl::StatusOr<MpiMeeting> OpenMpiMeeting(const distributed::InitOptions& options,
                                          const Variables& variables);

}  // namespace dp::library
