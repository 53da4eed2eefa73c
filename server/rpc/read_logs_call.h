#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dp/v1/logs.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/driver/driver.h"
#include "server/logs/log_thread.h"
#include "server/rpc/page_bytes.h"

namespace dp::server {

// One Read. The driver says whether the job has ended, and the log thread reads a page. If the page
// is empty, the call waits on the driver for more, and reads again. Deletes itself when gRPC is
// done with it.
class ReadLogsCall final : public grpc::ServerUnaryReactor {
 public:
  ReadLogsCall(const Admission& admission, LogThread& logs, PageBytes& pages,
               grpc::CallbackServerContext& context, grpc::ByteBuffer& response);

  void Start(const grpc::ByteBuffer& request);
  void OnCancel() override { admission_.Cancel(ticket_); }
  void OnDone() override { delete this; }

 private:
  absl::Status Check(const View& view);
  absl::Status ReadPage(const View& view);
  // Whether nothing more will be written of what the query selects.
  bool Over(const core::Job& job) const;
  absl::Status HasRead(const absl::StatusOr<LogThread::Page>& page);
  // Whether the client would rather wait than get this page.
  bool AwaitsMoreThan(const LogPage& page) const;
  absl::Status AwaitMore(uint64_t version);
  // Returns false if there is still nothing to read.
  bool Woken(Waiters::Wake wake, const View& view, uint64_t version);
  void Answer(const LogThread::Page& page);

  Admission admission_;  // about the job, once the request is read
  LogThread& logs_;
  PageBytes& pages_;
  const grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  v1::ReadLogsRequest request_;
  v1::ReadLogsResponse header_;  // only the header is set
  const Waiters::Ticket ticket_;
  LogQuery query_;
  absl::Time deadline_;
  absl::Duration time_left_;
};

}  // namespace dp::server
