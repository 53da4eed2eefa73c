#pragma once

#include <memory>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/local/local_cluster.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// A run on a separate coordinator and workers, on this machine: the flags --local, --workers and
// --slots, and the start. Part of a command.
class LocalRun {
 public:
  void DefineFlags(CLI::App& app);

  // Errors: InvalidArgument PET_STANDALONE, or a flag that needs --local.
  absl::Status Check() const;

  // Whether --local or torchrun's variable for it was given.
  bool on() const;

  // Starts the cluster that the job needs, and gives the run an id of its own.
  // Errors: InvalidArgument --workers and --slots have no room for the job; as CheckLocalGpus and
  // StartLocalCluster.
  absl::StatusOr<std::unique_ptr<LocalCluster>> Start(v1::JobSpec& spec, Context& context) const;

  // Checks that the started workers can train the job. Errors: as CheckLocalTrainer and
  // Context::Call.
  static absl::Status CheckStarted(const v1::JobSpec& spec, Context& context);

 private:
  bool on_ = false;
  int workers_ = 0;  // 0: as many as the job names
  int slots_ = 0;    // 0: as many as the job needs
};

}  // namespace dp::ctl
