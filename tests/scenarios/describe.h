#pragma once

#include <string>
#include <vector>

#include "server/core/coordinator.h"

// The machine's answers and state as lines of a scenario file.

namespace dp::scenarios {

std::string DescribeReply(const core::Reply& reply);
std::string DescribeTopic(const core::Topic& topic);
// "job 1 on node1/0 node1/1": worker and slot of each rank.
std::string DescribePlaces(const core::Job& job);

// A verdict of the retry policy, taken at `now`.
std::string DescribeVerdict(const core::Action& verdict, absl::Time now);
std::vector<std::string> DescribeJob(const core::Job& job);
std::vector<std::string> DescribeWorld(const core::World& world);
std::vector<std::string> DescribeEvents(const std::vector<const core::Event*>& events);
std::vector<std::string> DescribeWorkers(const std::vector<const core::Worker*>& workers);
std::vector<std::string> DescribeAssignment(const core::Assignment& assignment);

}  // namespace dp::scenarios
