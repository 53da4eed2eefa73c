#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/dpctl/command.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// A verb that asks the same of one job after the other. Each is tried and reported; the exit code
// is that of the first that could not be done.
class JobVerb : public Command {
 public:
  void DefineFlags(CLI::App& app) override;
  absl::StatusOr<int> Run(Context& context) override;

 private:
  // Asks for it; returns the job as it is then.
  virtual absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const = 0;
  // What has become of it, behind "job 7 ".
  virtual std::string Done(const v1::Job& before, const v1::Job& after) const = 0;

  absl::Status AskOne(Context& context, const std::string& text) const;

  std::vector<std::string> jobs_;
};

// The answer of an RPC with a job in it.
template <typename Response>
absl::StatusOr<v1::Job> JobOf(absl::StatusOr<Response> response) {
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

}  // namespace dp::ctl
