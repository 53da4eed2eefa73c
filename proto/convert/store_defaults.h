#pragma once

#include <string>

#include "dp/v1/job_spec.pb.h"

// Where the ranks of a command meet, for dpctl, which checks and shows it, and the coordinator,
// which records it. Pure.

namespace dp {

// Whether ranks meet at a TCPStore as torchrun's do, by the command's contract.
bool MeetsAtStore(const v1::CommandSpec& command);

// The default of a command's `store`. A job of one rank serves its own: processes that the program
// starts by itself, as by mp.spawn, then meet there as they do without a launcher.
std::string DefaultStore(const v1::JobSpec& spec);

}  // namespace dp
