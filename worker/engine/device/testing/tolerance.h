#pragma once

#include "worker/engine/device/device.h"

namespace dp::engine {

// How far a device's values may be from the CPU's in float32, as DeviceUnderTest::tolerance. A
// factor of a product has 8 bits in bf16 and 11 in TF32. A pooling window may choose another
// maximum. In bf16 0.07 was seen.
constexpr double ToleranceOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return 1e-4;
    case Precision::kTf32:
      return 0.02;
    case Precision::kBfloat16:
      return 0.1;
  }
  return 0;
}

}  // namespace dp::engine
