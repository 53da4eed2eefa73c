#include <dlfcn.h>
#include <sys/auxv.h>

#include <string>

#include "absl/base/config.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/library/grpc_module.h"
#include "worker/library/module_function.h"

// Loads the module that holds gRPC, so that only programs that use the coordinator's store need
// gRPC's libraries. The program may have another gRPC, so the module sees its own libraries first.

namespace dp::library {
namespace {

#define DP_NAME_OF(symbol) DP_TEXT_OF(symbol)
#define DP_TEXT_OF(symbol) #symbol

// Whether the executable has abseil's locks from an archive of the same release. Its half of the
// functions would then work on locks of the shared library's other half.
[[maybe_unused]] bool ProgramHasLocksOfGrpc() {
  const void* const lock =
      dlsym(RTLD_DEFAULT, DP_NAME_OF(ABSL_INTERNAL_C_SYMBOL(AbslInternalMutexYield)));
  const auto* const program = reinterpret_cast<const void*>(getauxval(AT_PHDR));
  Dl_info of_lock = {}, of_program = {};
  return lock != nullptr && dladdr(lock, &of_lock) != 0 && dladdr(program, &of_program) != 0 &&
         of_lock.dli_fbase == of_program.dli_fbase;
}

absl::StatusOr<ConnectGrpcInModule*> LoadGrpc() {
#ifdef DP_GRPC_MODULE
  if (ProgramHasLocksOfGrpc())
    return absl::UnimplementedError(
        "GrpcStore cannot be loaded: the program has linked abseil from the system's archives, "
        "which clashes with the shared abseil of gRPC; link the program with shared libraries");
  const absl::StatusOr<void*> connect =
      FindInModule(DP_GRPC_MODULE, kConnectGrpcInModule, ModuleScope::kOwn);
  if (connect.ok()) return reinterpret_cast<ConnectGrpcInModule*>(*connect);
  return absl::UnimplementedError(absl::StrCat(
      "GrpcStore cannot be loaded: ", connect.status().message(),
      "; install the library's files together, and gRPC (libgrpc++1.51 on Debian 12)"));
#else
  return absl::UnimplementedError(
      "GrpcStore is not in this build, as in dp's tarballs; build dp where gRPC's shared libraries "
      "are (libgrpc++-dev on Debian), or use init method env:// or dp://, or a TcpStore");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> ConnectGrpc(const GrpcPlace& place) {
  static const absl::StatusOr<ConnectGrpcInModule*> connect = LoadGrpc();
  if (!connect.ok()) return connect.status();
  absl::StatusOr<std::unique_ptr<Store>> store = absl::UnknownError("no answer of gRPC's module");
  (*connect)(place, store);
  return store;
}

}  // namespace dp::library
