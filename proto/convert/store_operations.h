#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/store/operation.h"
#include "dp/v1/store.pb.h"

// Store operations and their answers between the wire and base/store, for coordinator and clients
// alike. Pure; any thread.

namespace dp {

using StoreOperationProtos = google::protobuf::RepeatedPtrField<v1::StoreOperation>;
using StoreResultProtos = google::protobuf::RepeatedPtrField<v1::StoreResult>;

// Take the keys and values out of `protos`, or leave them there. Errors: InvalidArgument an
// operation without a verb that this release knows.
absl::StatusOr<std::vector<StoreOperation>> OperationsFromProto(StoreOperationProtos&& protos);
absl::StatusOr<std::vector<StoreOperation>> OperationsFromProto(const StoreOperationProtos& protos);
// Replace what is there.
void OperationsToProto(absl::Span<const StoreOperation> operations, StoreOperationProtos* protos);
void ResultsToProto(const std::vector<StoreResult>& results, StoreResultProtos* protos);
// Takes the values out of `protos`.
std::vector<StoreResult> ResultsFromProto(StoreResultProtos&& protos);

}  // namespace dp
