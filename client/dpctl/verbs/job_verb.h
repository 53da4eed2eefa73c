#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/dpctl/command.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// A verb that does the same to several jobs, once to each. Each job is tried and reported. The exit
// code is that of the first failure.
class JobVerb : public Command {
 public:
  void DefineFlags(CLI::App& app) override;
  absl::StatusOr<int> Run(Context& context) override;

 protected:
  void Print(Context& context, const v1::Job& before, const v1::Job& after) const;

 private:
  virtual absl::StatusOr<v1::Job> Find(Context& context, const std::string& text) const;
  // Sends the request; returns the job as it is then. Not called by a verb's own AskOne.
  virtual absl::StatusOr<v1::Job> Ask(Context&, const v1::Job& job) const { return job; }
  // The result, printed behind "job 7 ".
  virtual std::string Done(const v1::Job& before, const v1::Job& after) const = 0;

  // Asks for one job and prints the result. Cancelled ends the command.
  virtual absl::Status AskOne(Context& context, const v1::Job& before) const;

  std::vector<std::string> jobs_;
};

// The job in the response of an RPC.
template <typename Response>
absl::StatusOr<v1::Job> JobOf(absl::StatusOr<Response> response) {
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

}  // namespace dp::ctl
