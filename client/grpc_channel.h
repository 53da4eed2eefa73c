#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace dp::client {

// A separate connection to the coordinator at `address` (host:port). It connects at the first call,
// reconnects within about a second of a restart, and notices a peer that vanished.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

}  // namespace dp::client
