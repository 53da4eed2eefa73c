#pragma once

#include <string>
#include <vector>

#include "dp/v1/workers.pb.h"
#include "worker/core/rank.h"

namespace dp::worker {

// The exits of these ranks as their guards recorded them, as reports of the daemons that ran the
// ranks: the coordinator takes them until it loses those daemons. In the order of the exits, so
// that of two failures the coordinator hears the first one first. Reads their spools. Any thread.
std::vector<v1::ReportRankRequest> EarlierExits(const std::string& state_dir,
                                                const std::vector<RankKey>& ranks);

}  // namespace dp::worker
