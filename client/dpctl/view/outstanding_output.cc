#include "client/dpctl/view/outstanding_output.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/view/printable.h"
#include "dp/v1/logs.grpc.pb.h"

namespace dp::ctl {
namespace {

// A job of a thousand ranks must not fill the screen.
constexpr int kOutstandingShownMax = 5;
// For one question, whose answer is only a remark.
constexpr absl::Duration kRemarkWithin = absl::Seconds(2);

std::string Remark(uint64_t job, uint64_t generation, const v1::OutstandingOutput& output) {
  const std::string host = Printable(output.host().empty() ? output.worker() : output.host());
  const bool earlier = output.generation() < generation;
  const std::string which =
      earlier ? absl::StrCat(" --generation ", output.generation()) : std::string();
  return absl::StrCat("dpctl: output of rank ", output.rank(),
                      earlier ? absl::StrCat(" of generation ", output.generation()) : "", " on ",
                      host, " is incomplete: ", output.stored_bytes(),
                      " bytes arrived; the rest is on ", host, " in ", Printable(output.spool()),
                      ".*, if that directory still exists; 'dpctl logs ", job, " --rank ",
                      output.rank(), which, "' shows it once a dp-worker there has sent it\n");
}

}  // namespace

void WarnOfOutstanding(uint64_t job, uint64_t generation, const v1::ReadLogsResponse& last,
                       std::ostream& err) {
  const int shown = std::min(last.outstanding_size(), kOutstandingShownMax);
  for (int i = 0; i < shown; ++i) err << Remark(job, generation, last.outstanding(i));
  const int more = last.outstanding_ranks() - shown;
  if (more > 0) {
    err << "dpctl: output of " << more
        << (more == 1 ? " other rank is incomplete, too\n" : " other ranks is incomplete, too\n");
  }
}

void WarnOfOutstanding(Context& context, const v1::Job& job) {
  if (!Finished(job.state())) return;
  v1::ReadLogsRequest request;
  request.set_job(job.id());
  request.set_without_lines(true);
  const auto answer =
      context.coordinator().Call(&v1::Logs::Stub::Read, request, context.Within(kRemarkWithin));
  if (answer.ok()) WarnOfOutstanding(job.id(), job.generation(), *answer, context.err());
}

}  // namespace dp::ctl
