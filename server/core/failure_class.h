#pragma once

#include "absl/strings/string_view.h"

namespace dp::core {

// What put an end to a generation of a job; docs/failures.md says which budget pays for another.
enum class FailureClass {
  kUser,     // a rank exited with an error or died of a signal
  kInfra,    // a worker was lost or shut down
  kStartup,  // a rank process could not be started
  kCancel,   // somebody asked for it
  kHang,     // its peers waited for a rank in vain
  kOom,      // a rank was killed for want of memory
  kPreempt,  // its slots were wanted back
  kTimeout,  // it has held slots for its maxDuration
};

// Lower case, as people read it: "infra".
absl::string_view Name(FailureClass failure_class);

}  // namespace dp::core
