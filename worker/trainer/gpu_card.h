#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace dp::trainer {

// The GPU that a rank computes on, as its driver describes it.
struct GpuCard {
  std::string model;         // e.g. "NVIDIA H100 80GB HBM3"; empty: the driver does not say
  int64_t memory_bytes = 0;  // in total

  std::string name() const { return model.empty() ? "a GPU of unknown model" : model; }
};

}  // namespace dp::trainer
