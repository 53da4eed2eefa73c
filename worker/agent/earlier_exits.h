#pragma once

#include <string>
#include <vector>

#include "dp/v1/workers.pb.h"
#include "worker/core/rank.h"

namespace dp::worker {

// The exits of these ranks, as their guards recorded them in the spools. The reports are those of
// the daemons that ran the ranks; the coordinator accepts them until it evicts these daemons. In
// the order of the exits, so that the coordinator hears of the first failure first. Any thread.
std::vector<v1::ReportRankRequest> EarlierExits(const std::string& state_dir,
                                                const std::vector<RankKey>& ranks);

}  // namespace dp::worker
