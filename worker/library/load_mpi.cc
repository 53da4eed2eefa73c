#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/library/module_function.h"
#include "worker/library/mpi_module.h"

// Loads the module that uses MPI, so that only programs that use it need MPI's libraries. A program
// that calls MPI itself shares them with the module.

namespace dp::library {
namespace {

absl::StatusOr<const MpiModule*> LoadMpi() {
#ifdef DP_MPI_MODULE
  const absl::StatusOr<void*> module =
      FindInModule(DP_MPI_MODULE, kMpiModuleFunction, ModuleScope::kOfProgram);
  if (module.ok()) return reinterpret_cast<MpiModuleFunction*>(*module)();
  return absl::UnimplementedError(
      absl::StrCat("backend mpi cannot be loaded: ", module.status().message(),
                   "; install the library's files together, and Open MPI (openmpi-bin on Debian)"));
#else
  return absl::UnimplementedError("built without MPI");
#endif
}

absl::StatusOr<const MpiModule*> TheMpiModule() {
  static const absl::StatusOr<const MpiModule*> module = LoadMpi();
  return module;
}

}  // namespace
}  // namespace dp::library

namespace dp::engine {

absl::StatusOr<MpiPlace> StartMpi() {
  DP_ASSIGN_OR_RETURN(const auto* const module, library::TheMpiModule());
  return module->start();
}

absl::StatusOr<std::string> TextOfMpiRank0(const std::string& text, absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const auto* const module, library::TheMpiModule());
  return module->text_of_rank_0(text, timeout);
}

absl::StatusOr<std::unique_ptr<Group>> ConnectMpi(Store& store, int rank, int size,
                                                  const MpiOptions& options) {
  DP_ASSIGN_OR_RETURN(const auto* const module, library::TheMpiModule());
  return module->connect(store, rank, size, options);
}

}  // namespace dp::engine
