#pragma once

#include "worker/engine/collectives/mpi/mpi_group.h"

namespace dp::library {

// The functions of mpi_group.h, as the module exports them. Both sides are of one build, which the
// module's name states.
struct MpiModule {
  decltype(&engine::StartMpi) start;
  decltype(&engine::TextOfMpiRank0) text_of_rank_0;
  decltype(&engine::ConnectMpi) connect;
};
using MpiModuleFunction = const MpiModule*();
inline constexpr char kMpiModuleFunction[] = "dp_mpi_module";

}  // namespace dp::library
