#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "dp/v1/jobs.pb.h"

// How commands show an event. Pure.

namespace dp::ctl {

// The object of the event: "job 7", "worker w", or "access" for a change of who may do what.
inline std::string ObjectText(const v1::Event& event) {
  if (event.job() != 0) return absl::StrCat("job ", event.job());
  return event.worker().empty() ? "access" : absl::StrCat("worker ", event.worker());
}

}  // namespace dp::ctl
