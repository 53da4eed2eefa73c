#pragma once

#include <string>
#include <vector>

namespace dp::engine::cuda::on_host {

// How many products and convolutions the device on the host has tuned, and how many of them on an
// input whose elements are all equal. Thread-safe.
struct TunedPlans {
  int all = 0;
  int on_constants = 0;
};
TunedPlans Tuned();

// The names in the cache of all plans that the device on the host has made or chosen so far, in
// order. Thread-safe.
std::vector<std::string> PlanNames();

}  // namespace dp::engine::cuda::on_host
