#pragma once

#include "server/callers/barrier_arrivals.h"
#include "server/callers/client_table.h"

namespace dp::server {

// Shows who waits in stores, for people. Owned by the server; used on the driver's thread, except
// ClientTable::Report.
struct StoreCallers {
  ClientTable clients;
  BarrierArrivals arrivals;
};

}  // namespace dp::server
