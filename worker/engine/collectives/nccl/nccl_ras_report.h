#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// Reads the reports of NCCL's own watch over its ranks (RAS, since 2.24). Pure.

namespace dp::engine {

// Identifies this rank, to find its communicator in the report: several jobs of a host may answer
// at the same port.
struct RasSelf {
  int rank = 0;
  int size = 0;
  int pid = 0;
};

// The findings about this rank's communicator, in one line: missing ranks, errors, and ranks whose
// counts of collectives lag behind:
//
//   "NCCL RAS: rank 2 (host 10.0.0.3, process 77) is unresponsive; rank 3 is behind in AllReduce
//   (41 of 42)"
//
// Empty if there is nothing to report, or the communicator is not in the report. Takes JSON (since
// 2.28) and text, of which it uses the errors and warnings. Never fails: it skips what it does not
// understand.
std::string WordsOfRasReport(absl::string_view report, const RasSelf& self);

}  // namespace dp::engine
