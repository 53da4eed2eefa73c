#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// What NCCL's own watch over its ranks (RAS, since 2.24) reports. Pure.

namespace dp::engine {

// Where this rank stands, to find its communicator among those of the report: several jobs of a
// host may answer at the same port.
struct RasSelf {
  int rank = 0;
  int size = 0;
  int pid = 0;
};

// What the report says of the ranks of this rank's communicator that it misses, of errors, and of
// ranks whose counts of collectives lag behind, in one line:
//
//   "NCCL RAS: rank 2 (host 10.0.0.3, process 77) is unresponsive; rank 3 is behind in AllReduce
//   (41 of 42)"
//
// Empty where there is nothing to say, or the communicator is not in the report. Takes JSON (since
// 2.28) and, with its headings only, text. Never fails: what it does not understand it leaves out.
std::string WordsOfRasReport(absl::string_view report, const RasSelf& self);

}  // namespace dp::engine
