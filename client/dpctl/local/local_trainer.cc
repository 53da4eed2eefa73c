#include "client/dpctl/local/local_trainer.h"

#include <fstream>
#include <ios>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/local/child_process.h"
#include "client/dpctl/local/program_beside.h"
#include "client/dpctl/local/scratch_dir.h"

namespace dp::ctl {

absl::StatusOr<std::string> RunLocalTrainer(const std::string& verb, const std::string& request) {
  DP_ASSIGN_OR_RETURN(const std::string program, ProgramBeside("dp-trainer"));
  ScratchDir scratch;
  DP_RETURN_IF_ERROR(scratch.Make());
  const std::string file = scratch.Of("request.json"), errors = scratch.Of("trainer.log");
  if (!(std::ofstream(file, std::ios::binary) << request).flush()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", file, "; is its disk full?"));
  }
  DP_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start({program, verb, file}, errors));
  DP_ASSIGN_OR_RETURN(std::string output, child.AllOutput());
  if (!output.empty()) return output;
  return absl::InternalError(
      absl::StrCat("dp-trainer ", child.AwaitEnd(), "; its last lines:", LastLines(errors)));
}

}  // namespace dp::ctl
