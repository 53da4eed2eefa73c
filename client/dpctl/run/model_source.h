#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/local/scratch_dir.h"
#include "dp/v1/inference.pb.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The trained model that a command takes from the command line: a job, or files by themselves. A
// job's weights are in its files, or the coordinator keeps them. Part of a command.
class ModelSource {
 public:
  void DefineFlags(CLI::App& app);

  // Whether the model is a file, so that no coordinator is asked.
  bool NamesFile() const;

  // Errors: NotFound no such job; InvalidArgument a wrong job file; others as Context::Call.
  // FailedPrecondition the job left no weights, or they are not on this host; with the remedy.
  absl::StatusOr<v1::TrainedWeights> Find(Context& context);

 private:
  // The final weights of a job: its file, if that is here, else a copy of those that the
  // coordinator keeps. Errors: NotFound there are none.
  absl::Status TakeFinal(Context& context, const v1::Job& job, v1::TrainedWeights& weights);
  absl::StatusOr<v1::TrainedWeights> OfFile(const Context& context) const;
  absl::StatusOr<v1::TrainedWeights> OfJob(Context& context);

  std::string model_;     // the first argument
  std::string job_file_;  // --model; empty: none
  int threads_ = 0;
  ScratchDir scratch_;  // of such a copy
};

// Flags for the files of an encoding of texts (dp/v1/inference.proto).
void DefineBpeFlags(CLI::App& app, v1::DataPlaces& places);

// Makes the places absolute, from where dpctl was called.
void CompletePlaces(const Context& context, v1::DataPlaces& places);

}  // namespace dp::ctl
