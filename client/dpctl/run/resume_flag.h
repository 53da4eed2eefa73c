#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// --resume JOB@latest or JOB@STEP: training starts from checkpoints of an earlier job. Part of a
// command.
class ResumeFlag {
 public:
  void DefineFlags(CLI::App& app);
  bool given() const { return from_.has_value(); }

  // Gets the checkpoints from the coordinator and fills them in. For "latest" it takes all, newest
  // first, so that a damaged one only costs some steps. A no-op if the flag was not given.
  // Errors: InvalidArgument the flag's text, or the job is no training; NotFound no such job or
  // checkpoint.
  absl::Status Apply(Context& context, v1::JobSpec& spec) const;

 private:
  std::optional<std::string> from_;
};

}  // namespace dp::ctl
