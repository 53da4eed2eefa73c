#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/dpctl/run/env_flags.h"
#include "client/dpctl/run/torchrun_flags.h"
#include "client/job/job_file.h"

namespace dp::ctl {

// How dpctl reads the words of a program.
enum class Launching {
  kDp,        // `dpctl run`, `dpctl submit`: python runs scripts that end with ".py"
  kTorchrun,  // `dpctl torchrun`: python runs every program, as with torchrun
  kLaunch,    // `dpctl launch`: the same, with the arguments of torch.distributed.launch
};

// The flags of a command job on the command line, as in `dpctl run --nnodes 2 -- python3 train.py`:
// torchrun's, and dp's own. Part of a JobSource.
class ProgramFlags {
 public:
  explicit ProgramFlags(Launching launching) : launching_(launching) {}
  void DefineFlags(CLI::App& app);

  // The job that runs the program with these words. A relative --workdir starts at `working_dir`.
  // Reads the script, if it exists, for the spelling of --local-rank.
  // Errors: InvalidArgument names the flag.
  absl::StatusOr<client::JobFile> Job(const std::vector<std::string>& words,
                                      const std::string& working_dir) const;

  // Whether `word`, which is no flag and stands behind the flags `before`, begins a program.
  bool StartsProgram(absl::string_view word, const std::vector<std::string>& before) const;

  // The first of these flags that was given; empty if none.
  std::string given() const;

  // Notes for the user about given flags: which are not needed, and which variables are not set
  // here. `lines_shown`: the command shows the lines of ranks.
  std::vector<std::string> Notes(bool lines_shown) const;

  const TorchrunFlags& torchrun() const { return torchrun_; }

 private:
  // The command line of a rank, from the words and the flags.
  absl::StatusOr<std::vector<std::string>> Argv(const std::vector<std::string>& words,
                                                const std::string& working_dir) const;
  // Gives fields that flags fill the names of their flags in errors.
  void NameFields(client::FieldSource& source) const;
  absl::Status FillNumbers(v1::JobSpec& spec) const;
  absl::Status FillEnv(v1::JobSpec& spec) const;

  const Launching launching_;
  const CLI::App* app_ = nullptr;
  TorchrunFlags torchrun_;
  EnvFlags env_;
  std::string name_;
  std::string workdir_;
  std::string contract_;
  std::string store_;
  bool use_env_ = false;
  absl::Duration detect_within_ = absl::ZeroDuration();  // zero: not given
};

}  // namespace dp::ctl
