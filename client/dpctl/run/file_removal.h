#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/run/interrupt_watch.h"
#include "client/dpctl/view/file_view.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The removal of a job with its files: the flags --with-files, --files-on and --dry-run of `rm` and
// `prune`. Files are removed by small jobs in the name of the job's owner, one on each worker that
// may have some (file_places.h). Part of a command; one thread.
class FileRemoval {
 public:
  // The outcome for one job. Unless `status` is OK, the job stays on record.
  struct End {
    std::vector<FileOnWorker> files;
    absl::Status status;
  };

  void DefineFlags(CLI::App& app);
  // Call it once the flags are parsed. Errors: InvalidArgument a flag that needs --with-files.
  absl::Status Check() const;

  bool with_files() const { return with_files_; }
  bool dry_run() const { return dry_run_; }

  // While the result lives, Ctrl-C cancels the removal that runs. Null without --with-files.
  std::unique_ptr<InterruptWatch> WatchInterrupts(Context& context) const;

  // Removes a job from the coordinator's record; before that its files, if asked for. In a dry run
  // removes nothing. Errors, in `status`:
  // - FailedPrecondition the job is not over, or another job still needs its checkpoints;
  // - FailedPrecondition its files cannot be reached, or one of them could not be removed;
  // - Cancelled on Ctrl-C; others as Context::Call.
  End Remove(Context& context, const v1::Job& job) const;

 private:
  absl::Status RemoveAllFiles(Context& context, const v1::Job& job,
                              std::vector<FileOnWorker>* files) const;
  // Runs the job that removes the files on one worker, and removes its record.
  absl::Status RemoveOn(Context& context, const v1::Job& job, const std::string& worker,
                        std::vector<FileOnWorker>* files) const;

  bool with_files_ = false;
  bool dry_run_ = false;
  std::string files_on_;  // empty: the workers that the record names
};

}  // namespace dp::ctl
