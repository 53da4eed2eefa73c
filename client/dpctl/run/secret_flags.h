#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/dpctl/context.h"
#include "client/job/job_file.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The flag that gives ranks a secret variable: --secret NAME[=FILE]. Part of a command.
class SecretFlags {
 public:
  void DefineFlags(CLI::App& app);

  // Adds the secrets of the flags to those of the job. A flag replaces an entry of its name.
  // Errors: InvalidArgument names the flag.
  absl::Status Apply(client::JobFile& job) const;

 private:
  std::vector<std::string> secrets_;
};

// Reads the values of the job's secrets, and adds them to the request. First asks the coordinator
// whether it takes secrets, so that no other one receives a value.
// Errors: InvalidArgument names the secret and the remedy. FailedPrecondition the connection or the
// coordinator cannot carry secrets. Cancelled on Ctrl-C, where the command takes it. As
// Context::Call.
absl::Status AddSecrets(Context& context, const client::JobFile& job, v1::SubmitRequest& request);

}  // namespace dp::ctl
