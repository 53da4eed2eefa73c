#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// --resume JOB@latest or JOB@STEP: lets a training start from checkpoints of an earlier job. Part
// of a command.
class ResumeFlag {
 public:
  void DefineFlags(CLI::App& app);
  bool given() const { return from_.has_value(); }

  // Asks the coordinator for the checkpoints, and fills them in: with "latest" all of them, newest
  // first, so that a damaged one costs some steps only. Does nothing where the flag is not given.
  // Errors: InvalidArgument the flag's text, or the job is no training; NotFound no such job or
  // checkpoint.
  absl::Status Apply(Context& context, v1::JobSpec& spec) const;

 private:
  std::optional<std::string> from_;
};

}  // namespace dp::ctl
