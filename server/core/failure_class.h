#pragma once

#include "absl/strings/string_view.h"

namespace dp::core {

// The cause that ended a generation of a job; docs/failures.md says which budget pays for a
// restart.
enum class FailureClass {
  kUser,     // a rank exited with an error or died of a signal
  kInfra,    // a worker was lost or shut down
  kStartup,  // a rank process could not be started
  kCancel,   // somebody asked for it
  kHang,     // a rank hangs: its peers waited in vain, or it did not join
  kOom,      // the kernel killed a rank: out of memory
  kPreempt,  // its slots were needed for something else
  kTimeout,  // it has held slots for its maxDuration
};

// Lower case: "infra".
absl::string_view Name(FailureClass failure_class);

}  // namespace dp::core
