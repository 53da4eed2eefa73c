#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/collectives/exchange/exchange_group.h"

namespace dp::engine {

// Runs a collective as one or more exchanges. Reductions have the order of their call. Grows
// `scratch` as needed. Errors: the exchanger's.
absl::Status RunByExchanges(Exchanger& exchanger, int rank, int size, const Collective& call,
                            std::vector<uint8_t>& scratch);

}  // namespace dp::engine
