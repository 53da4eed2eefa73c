#pragma once

#include <array>
#include <utility>

#include "absl/strings/string_view.h"

namespace dp::server {

// Every RPC of proto/dp/v1, which the build reads from there.
enum class Rpc {
#define DP_RPC(service, method) k##service##method,
#include "dp/v1/rpcs.inc"
#undef DP_RPC
};

// In the order of the enumerators, as "Jobs.Submit".
inline constexpr auto kRpcNames = std::to_array<absl::string_view>({
#define DP_RPC(service, method) #service "." #method,
#include "dp/v1/rpcs.inc"
#undef DP_RPC
});

inline absl::string_view NameOf(Rpc rpc) { return kRpcNames[static_cast<size_t>(rpc)]; }

}  // namespace dp::server
