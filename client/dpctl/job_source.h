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
  void DefineFlags(CLI::App& app);
  // Returns whether there is one.
  bool TakeProgram(std::vector<std::string> argv);

  // Reads, fills in the defaults and checks. With `ranks_run_here`, paths in the job are taken from
  // where dpctl was called; elsewhere they must be absolute. Errors: InvalidArgument where and
  // what.
  absl::StatusOr<v1::JobSpec> Load(const Context& context, bool ranks_run_here) const;

 private:
  // Before defaults and checks.
  absl::StatusOr<client::JobFile> Read(const Context& context) const;

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
