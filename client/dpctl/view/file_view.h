#pragma once

#include <string>
#include <vector>

#include "client/dpctl/context.h"
#include "client/dpctl/view/json_writer.h"
#include "dp/v1/checkpoints.pb.h"

namespace dp::ctl {

// The outcome for one file of a job; `worker` says where it is. No worker: the record alone says
// so.
struct FileOnWorker {
  std::string worker;
  v1::FileOutcome outcome;
};

// Prints one line a file: to `out` those that are removed or left, else to standard error those
// that could not be removed.
void PrintFiles(const std::vector<FileOnWorker>& files, bool dry_run, std::ostream& out,
                std::ostream& err);

// Writes them as the list `files`.
void WriteFiles(const std::vector<FileOnWorker>& files, JsonWriter& json);

}  // namespace dp::ctl
