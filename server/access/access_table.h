#pragma once

#include "server/access/rpc.h"

namespace dp::server {

// The objects of which a role may call an RPC.
enum class Reach {
  kNone,
  kOwn,  // a user: of their own jobs; a worker: of itself and of jobs that have ranks on it; a
         // rank: of its own job and generation
  kAll,
};

// Administrators may call everything, so they have no column.
struct AccessRow {
  Reach user = Reach::kNone;
  Reach viewer = Reach::kNone;
  Reach worker = Reach::kNone;
  Reach rank = Reach::kNone;
  Reach stranger = Reach::kNone;
};

// The row of an RPC in the one table of the whole protocol. An RPC without a row does not compile,
// and no service can reach the machine past the table (admission.h).
AccessRow RowOf(Rpc rpc);

}  // namespace dp::server
