#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "dp/v1/inference.pb.h"

namespace dp::ctl {

// The trained model that a command takes from the command line: a job with its files, or files by
// themselves. Part of a command.
class ModelSource {
 public:
  void DefineFlags(CLI::App& app);

  // Whether the model is a file, so that no coordinator is asked.
  bool NamesFile() const;

  // Errors: NotFound no such job; InvalidArgument a wrong job file; others as Context::Call.
  // FailedPrecondition the job left no weights, or they are not on this host; with the remedy.
  absl::StatusOr<v1::TrainedWeights> Find(Context& context) const;

 private:
  absl::StatusOr<v1::TrainedWeights> OfFile(const Context& context) const;
  absl::StatusOr<v1::TrainedWeights> OfJob(Context& context) const;

  std::string model_;     // the first argument
  std::string job_file_;  // --model; empty: none
  int threads_ = 0;
};

// Flags for the files of an encoding of texts (dp/v1/inference.proto).
void DefineBpeFlags(CLI::App& app, v1::DataPlaces& places);

// Makes the places absolute, from where dpctl was called.
void CompletePlaces(const Context& context, v1::DataPlaces& places);

}  // namespace dp::ctl
