#pragma once

#include "worker/engine/device/cpu/cpu_stream.h"

namespace dp::engine {

// The backward half of a ReLU whose forward half is part of another layer's primitive. Sets the
// gradient of an activation to zero where the value is zero, in place.
class ReluGradient {
 public:
  ReluGradient(CpuStream& cpu, const Activation& out);

  void Run();

 private:
  CpuStream& cpu_;
  const Activation out_;
  const dnnl::eltwise_backward primitive_;
};

}  // namespace dp::engine
