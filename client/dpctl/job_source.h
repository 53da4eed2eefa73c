#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/dpctl/context.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The job that a user wants to submit: a file and what --set changes in it. Part of a command.
class JobSource {
 public:
  void DefineFlags(CLI::App& app);

  // Reads, fills in the defaults and checks. Errors: InvalidArgument where and what.
  absl::StatusOr<v1::JobSpec> Load(const Context& context) const;

 private:
  std::string file_;
  std::vector<std::string> overrides_;
};

// Errors: as Context::Call; InvalidArgument what the coordinator refuses.
absl::StatusOr<v1::Job> SubmitJob(Context& context, const v1::JobSpec& spec);

}  // namespace dp::ctl
