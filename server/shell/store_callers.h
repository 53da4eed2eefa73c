#pragma once

#include "server/shell/barrier_arrivals.h"
#include "server/shell/client_table.h"

namespace dp::server {

// Who waits in stores, for people. Owned by the server; for the driver's thread, but for
// ClientTable::Report.
struct StoreCallers {
  ClientTable clients;
  BarrierArrivals arrivals;
};

}  // namespace dp::server
