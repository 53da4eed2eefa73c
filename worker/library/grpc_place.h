#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "dp/store.h"
#include "worker/library/grpc_module.h"
#include "worker/library/init_method.h"
#include "worker/library/open_store.h"

namespace dp::library {

// Reads the options and, for what they leave out, the variables of a rank. Pure but for
// `variables`. Errors: InvalidArgument names the option or each variable, with what to set.
absl::StatusOr<GrpcPlace> ReadGrpcPlace(const distributed::GrpcStoreOptions& options,
                                        const Variables& variables);

// Opens the store at that place. Errors: those of ReadGrpcPlace and ConnectGrpc.
absl::StatusOr<std::shared_ptr<OpenStore>> OpenGrpcStore(
    const distributed::GrpcStoreOptions& options, const Variables& variables);

}  // namespace dp::library
