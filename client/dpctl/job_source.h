#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/dpctl/context.h"
#include "client/dpctl/program_flags.h"
#include "dp/v1/jobs.pb.h"

namespace dp::ctl {

// The job that a user wants to submit: a file and what --set changes in it, or a program and its
// flags. Part of a command.
class JobSource {
 public:
  // `lines_shown`: the command shows the lines of ranks.
  JobSource(Launching launching, bool lines_shown)
      : launching_(launching), lines_shown_(lines_shown), flags_(launching) {}
  void DefineFlags(CLI::App& app);
  // The usage lines: the words that may follow the command and its flags.
  std::vector<std::string> Usages() const;

  // Whether `word`, the first one behind the command and its flags `before` that is no flag, begins
  // a program: it and all words behind it are the program's then, as if "--" stood before.
  // Errors: InvalidArgument the word was meant for a flag.
  absl::StatusOr<bool> StartsProgram(const std::string& word,
                                     const std::vector<std::string>& before) const;
  // The words of the program. Returns whether there is one.
  bool TakeProgram(std::vector<std::string> argv);

  // The remedy for a word that no argument takes; empty where it has nothing to do with
  // programs.
  std::string WhyLeftOver(const std::string& word) const;

  // Reads, fills in the defaults and checks; says on standard error which flags are not needed.
  // With `ranks_run_here`, paths in the job are taken from where dpctl was called; elsewhere they
  // must be absolute. Errors: InvalidArgument where and what.
  absl::StatusOr<v1::JobSpec> Load(const Context& context, bool ranks_run_here) const;

  const TorchrunFlags& torchrun() const { return flags_.torchrun(); }

 private:
  // Before defaults and checks.
  absl::StatusOr<client::JobFile> Read(const Context& context) const;
  // How to write what was taken for a job file as a program.
  std::string ProgramHint() const;

  const Launching launching_;
  const bool lines_shown_;
  std::string verb_;  // of the command
  std::string file_;
  std::vector<std::string> overrides_;
  ProgramFlags flags_;
  std::vector<std::string> program_;  // empty: a file
};

// Warns on standard error of a store that its coordinator cannot restart with.
// Errors: as Context::Call; InvalidArgument what the coordinator refuses.
absl::StatusOr<v1::Job> SubmitJob(Context& context, const v1::JobSpec& spec);

}  // namespace dp::ctl
