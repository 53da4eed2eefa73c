#include "worker/library/mpi_module.h"

namespace dp::library {

extern "C" MpiModuleFunction dp_mpi_module;

const MpiModule* dp_mpi_module() {
  static const MpiModule module{&engine::StartMpi, &engine::TextOfMpiRank0, &engine::ConnectMpi};
  return &module;
}

}  // namespace dp::library
