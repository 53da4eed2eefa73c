#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// From the words of a user to the command line of a rank, as torchrun makes it. Pure.

namespace dp::ctl {

struct Launcher {
  // Runs every program with python. Else python runs what ends with ".py".
  bool always_python = false;
  bool module = false;     // the first word is a Python module
  bool no_python = false;  // the first word is run itself
  std::string python;      // the interpreter
};

// The command line of `python -u` with the words. Precondition: there are words.
// Errors: InvalidArgument `module` and `no_python` exclude each other.
absl::StatusOr<std::vector<std::string>> RankArgv(const std::vector<std::string>& words,
                                                  const Launcher& launcher);

// Which word of a rank's command line is its script: train.py of "python3 -u train.py --epochs 3",
// the module behind -m, or the program itself, word 0.
size_t ScriptIn(const std::vector<std::string>& argv);

// Whether a first word that is no flag is a program and not a job file.
bool IsScript(absl::string_view word);

// How a script that was written for torch.distributed.launch names the flag of its local rank:
// "--local_rank" where `text` has that spelling alone, else "--local-rank".
std::string LocalRankFlag(absl::string_view text);

// A job's name after its program: "python3 train_net.py" -> "train-net".
std::string NameAfter(const std::vector<std::string>& argv);

}  // namespace dp::ctl
