#pragma once

#include <string>

#include "dp/v1/job_spec.pb.h"

// Where the ranks of a command meet. dpctl checks and shows it; the coordinator records it. Pure.

namespace dp {

// Whether the command's contract makes ranks meet at a TCPStore, as torchrun's ranks do.
bool MeetsAtStore(const v1::CommandSpec& command);

// The default of a command's `store`: "program" for a job of one rank, else "relay". Processes that
// a single rank starts itself (mp.spawn) then meet at its own store, as without a launcher.
std::string DefaultStore(const v1::JobSpec& spec);

}  // namespace dp
