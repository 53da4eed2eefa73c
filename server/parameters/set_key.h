#pragma once

#include <compare>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/id.h"

namespace dp::server {

// Names a set of parameters: that of a job, or one with a name.
struct SetKey {
  JobId job;         // invalid: a named set
  std::string name;  // empty: a job's set

  auto operator<=>(const SetKey&) const = default;

  // As in messages: "job 7", "set gpt2".
  std::string ToString() const {
    return job.valid() ? absl::StrCat("job ", job.ToString()) : absl::StrCat("set ", name);
  }
  // Its folder: "job-7", "set-gpt2".
  std::string folder() const {
    return job.valid() ? absl::StrCat("job-", job.ToString()) : absl::StrCat("set-", name);
  }
};

}  // namespace dp::server
