#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Makes the command line of a rank from the words of a user, as torchrun does. Pure.

namespace dp::ctl {

struct Launcher {
  // Python runs every program; otherwise it runs those that end with ".py".
  bool always_python = false;
  bool module = false;     // the first word is a Python module
  bool no_python = false;  // the first word is run itself
  std::string python;      // the interpreter
};

// The words as the command line of a rank, behind `python -u` if python runs them. Precondition:
// there are words.
// Errors: InvalidArgument `module` and `no_python` exclude each other.
absl::StatusOr<std::vector<std::string>> RankArgv(const std::vector<std::string>& words,
                                                  const Launcher& launcher);

// The index of the script in a rank's command line: train.py of "python3 -u train.py", or the
// module behind -m. Without either the program itself, word 0.
size_t ScriptIn(const std::vector<std::string>& argv);

// Whether a first word that is no flag is a program, not a job file.
bool IsScript(absl::string_view word);

// The flag with which a script for torch.distributed.launch takes its local rank: "--local_rank" if
// `text` has only that spelling, else "--local-rank".
std::string LocalRankFlag(absl::string_view text);

// A job's default name, from its program: "python3 train_net.py" -> "train-net".
std::string NameAfter(const std::vector<std::string>& argv);

}  // namespace dp::ctl
