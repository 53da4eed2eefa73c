#pragma once

namespace dp::engine::cuda::on_host {

// How many products and convolutions the device on the host has tuned, and how many of them on an
// input whose elements are all equal. Thread-safe.
struct TunedPlans {
  int all = 0;
  int on_constants = 0;
};
TunedPlans Tuned();

}  // namespace dp::engine::cuda::on_host
