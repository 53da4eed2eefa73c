#pragma once

#include <optional>

#include "client/job_file.h"

namespace dp::client {

// Fills in what the owner left out (docs/job-file.md has the values). A field that was given stays
// as it is, a wrong zero too: CheckJob finds it. Pure.
void FillDefaults(JobFile& job);

// How many ranks nodes and nprocPerNode make; none where one of them is no number yet, or no good.
std::optional<int> RanksOf(const v1::CommandSpec& command);

}  // namespace dp::client
