#pragma once

#include "absl/status/statusor.h"
#include "base/store/operation.h"
#include "dp/v1/store.pb.h"

// Store operations between the wire and the core. Pure; any thread.

namespace dp::server {

// Errors: InvalidArgument no verb is set.
absl::StatusOr<StoreOperation> FromProto(const v1::StoreOperation& operation);
v1::StoreOperation ToProto(const StoreOperation& operation);
v1::StoreResult ToProto(const StoreResult& result);

}  // namespace dp::server
