#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/dpctl/context.h"
#include "client/dpctl/run/program_flags.h"
#include "client/dpctl/run/secret_flags.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The job that a user wants to submit: a file with the changes of --set, or a program and its
// flags. Part of a command.
class JobSource {
 public:
  // `lines_shown`: the command shows the lines of ranks.
  JobSource(Launching launching, bool lines_shown)
      : launching_(launching), lines_shown_(lines_shown), flags_(launching) {}
  void DefineFlags(CLI::App& app);
  // The usage lines: the words that may follow the command and its flags.
  std::vector<std::string> Usages() const;

  // Whether `word` begins a program. `word` is the first one that is no flag, behind the command
  // and its flags `before`. All words from the beginning of a program on belong to it, as after
  // "--".
  // Errors: InvalidArgument the word was meant for a flag.
  absl::StatusOr<bool> StartsProgram(const std::string& word,
                                     const std::vector<std::string>& before) const;
  // Takes the words of the program. Returns whether there are any.
  bool TakeProgram(std::vector<std::string> argv);

  // The advice for a word that no argument takes; empty if it has nothing to do with programs.
  std::string WhyLeftOver(const std::string& word) const;

  // Reads the job, fills in the defaults and checks the values. Reports on standard error which
  // flags are not needed. With `ranks_run_here`, relative paths in the job start where dpctl was
  // called; otherwise paths must be absolute. Errors: InvalidArgument where and what; Cancelled on
  // Ctrl-C, where the command takes it.
  absl::StatusOr<client::JobFile> Load(const Context& context, bool ranks_run_here) const;

  const TorchrunFlags& torchrun() const { return flags_.torchrun(); }

 private:
  // The job before defaults and checks.
  absl::StatusOr<client::JobFile> Read(const Context& context) const;
  // How to write the supposed job file as a program.
  std::string ProgramHint() const;

  const Launching launching_;
  const bool lines_shown_;
  std::string verb_;  // name of the command
  std::string file_;
  std::vector<std::string> overrides_;
  ProgramFlags flags_;
  SecretFlags secrets_;
  std::vector<std::string> program_;  // empty: a file
};

// Lets the relative paths of a training start at `from`.
void CompletePaths(const std::filesystem::path& from, v1::TrainSpec& train);

// The request to submit the job, with the values of its secrets. Warns on standard error of a store
// that does not survive a restart of its coordinator. Errors: as AddSecrets.
absl::StatusOr<v1::SubmitRequest> RequestFor(Context& context, const client::JobFile& job);

// Errors: as Context::Call; InvalidArgument what the coordinator rejects.
absl::StatusOr<v1::Job> SubmitJob(Context& context, const v1::SubmitRequest& request);

}  // namespace dp::ctl
