#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dp/v1/store.pb.h"
#include "store/operation.h"

// Converts store operations and results between the wire and store, for the coordinator and
// its clients. Pure; any thread.

namespace dp {

using StoreOperationProtos = google::protobuf::RepeatedPtrField<v1::StoreOperation>;
using StoreResultProtos = google::protobuf::RepeatedPtrField<v1::StoreResult>;

// The && overload moves keys and values out of `protos`.
// Errors: InvalidArgument an operation has no verb that this release knows.
absl::StatusOr<std::vector<StoreOperation>> OperationsFromProto(StoreOperationProtos&& protos);
absl::StatusOr<std::vector<StoreOperation>> OperationsFromProto(const StoreOperationProtos& protos);
// Both replace the contents of `protos`.
void OperationsToProto(absl::Span<const StoreOperation> operations, StoreOperationProtos* protos);
void ResultsToProto(const std::vector<StoreResult>& results, StoreResultProtos* protos);
// Moves the values out of `protos`.
std::vector<StoreResult> ResultsFromProto(StoreResultProtos&& protos);

}  // namespace dp
