#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dp/v1/jobs.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/driver/driver.h"
#include "server/logs/log_thread.h"

namespace dp::server {

// One answer about a job: at once, or once its version is no longer `since`. A job may have failed
// with a rank whose daemon could not give the last lines, for example because it died. The lines
// then come from the log store. Deletes itself when gRPC is done with it.
class WatchJobCall final : public grpc::ServerUnaryReactor {
 public:
  // Header and answer belong to the response.
  WatchJobCall(const Admission& admission, LogThread& logs, JobId job, uint64_t since,
               v1::ResponseHeader& header, v1::Job& answer);

  void Start(absl::Duration timeout);
  void OnCancel() override { admission_.Cancel(ticket_); }
  void OnDone() override { delete this; }

 private:
  // Returns false if there is nothing new.
  bool Woken(Waiters::Wake wake, const View& view);
  void Answer(const core::Job& job, const View& view);
  // Reads the lines for the last of `lacking_`, or finishes the call.
  void ReadNextLines();
  void AddLastLines(const absl::StatusOr<LogThread::Page>& page);

  const Admission admission_;
  LogThread& logs_;
  const JobId job_;
  const uint64_t since_;
  v1::ResponseHeader& header_;
  v1::Job& answer_;
  const Waiters::Ticket ticket_;

  // A failure of the answer without its rank's last lines, which the logs may have.
  struct Lacking {
    v1::Failure* failure;
    LogQuery query;
  };
  std::vector<Lacking> lacking_;
};

}  // namespace dp::server
