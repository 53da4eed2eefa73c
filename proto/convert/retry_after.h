#pragma once

namespace dp {

// With this trailing metadata the coordinator says when to retry a call that it rejected for the
// caller's rate: a number of milliseconds. The name is gRPC's own, so that other clients know it.
inline constexpr char kRetryAfterMetadata[] = "grpc-retry-pushback-ms";

}  // namespace dp
