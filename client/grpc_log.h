#pragma once

namespace dp::client {

// Keeps gRPC's own messages from standard error: they repeat what calls report, such as failed
// handshakes. With GRPC_VERBOSITY in the environment they stay. Call it in main.
void SilenceGrpcLog();

}  // namespace dp::client
