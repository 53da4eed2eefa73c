#pragma once

#include <functional>

#include "dp/v1/checkpoints.pb.h"

namespace dp::trainer {

// Removes the checkpoints and weights that dp wrote on this host for one train job, with the rights
// of this process. Temporary files of both go, too. own_files.h decides whose a file is. Calls
// `tell` for each file that is removed, or that is in the way and stays. Follows symbolic links
// only above the job's directory of checkpoints and above the weights. A repetition goes on where
// an earlier one failed. Returns whether nothing of the job is left, as far as the files prove it.
bool RemoveFiles(const v1::FileRemoval& removal,
                 const std::function<void(const v1::FileOutcome&)>& tell);

// `dp-trainer remove-files JSON`: RemoveFiles with a FileRemoval in JSON. Prints one FileOutcome a
// line. Returns the exit code: 0; 1 a file of the job is left; 2 the argument is no FileRemoval.
int RunRemoveFiles(const char* program, const char* json);

}  // namespace dp::trainer
