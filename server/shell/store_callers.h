#pragma once

#include "server/shell/barrier_arrivals.h"
#include "server/shell/client_table.h"

namespace dp::server {

// What is known of those who wait in stores, for people. Owned by the server, used on the driver's
// thread only.
struct StoreCallers {
  ClientTable clients;
  BarrierArrivals arrivals;
};

}  // namespace dp::server
