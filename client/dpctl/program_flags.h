#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/job_file.h"

namespace dp::ctl {

// The flags of a command job on the command line, `dpctl run --nnodes 2 -- python3 train.py`. They
// are spelled as torchrun spells them, with '-' or '_', and what is not given is taken from its
// variables PET_NNODES, PET_NPROC_PER_NODE and PET_MAX_RESTARTS. Part of a JobSource.
class ProgramFlags {
 public:
  void DefineFlags(CLI::App& app);

  // The job that runs `argv`. A relative --workdir is taken from `working_dir`.
  // Errors: InvalidArgument names the flag.
  absl::StatusOr<client::JobFile> Job(const std::vector<std::string>& argv,
                                      const std::string& working_dir) const;

  // The first of these flags that was given; empty where none.
  std::string given() const;

 private:
  absl::Status FillEnv(v1::JobSpec& spec) const;

  const CLI::App* app_ = nullptr;
  std::string nnodes_;
  std::string nproc_per_node_;
  std::string max_restarts_;
  std::string name_;
  std::string workdir_;
  std::string contract_;
  std::string store_;
  absl::Duration detect_within_ = absl::ZeroDuration();  // zero: not given
  std::vector<std::string> env_;
};

// A job's name after its program: "python3 train_net.py" -> "train-net". Pure.
std::string NameAfter(const std::vector<std::string>& argv);

}  // namespace dp::ctl
