#include "client/connection.h"

#include <grpcpp/grpcpp.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/absence.h"
#include "client/retry_policy.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "dp/v1/store.pb.h"
#include "dp/v1/workers.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/retry_after.h"

namespace dp::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(30);

// A Jobs service that echoes, rejects, or does not answer before it is cancelled.
class FakeJobs final : public v1::Jobs::CallbackService {
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetJobRequest* request,
                                v1::GetJobResponse* response) override {
    auto* reactor = context->DefaultReactor();
    if (request->job() == 404) {
      reactor->Finish({grpc::StatusCode::NOT_FOUND, "no job 404"});
    } else if (request->job() == 429) {
      reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many unfinished jobs"});
    } else if (request->job() == 430) {
      // gRPC's answer when its server is short of memory.
      reactor->Finish(
          {grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11"});
    } else if (request->job() == 431) {
      context->AddTrailingMetadata(kRetryAfterMetadata, "1500");
      reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "user ann makes too many calls"});
    } else if (request->job() == 499) {
      reactor->Finish(grpc::Status::CANCELLED);
    } else if (request->job() == 502) {
      // gRPC's words for a reset that comes at once.
      reactor->Finish({grpc::StatusCode::UNAVAILABLE,
                       "Failed to connect to remote host: Connection reset by peer"});
    } else if (request->job() == 503) {
      reactor->Finish({grpc::StatusCode::UNAVAILABLE, "not yet"});
    } else {
      response->mutable_job()->set_id(request->job());
      reactor->Finish(grpc::Status::OK);
    }
    return reactor;
  }

  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext*, const v1::WatchJobRequest*,
                                  v1::WatchJobResponse*) override {
    struct Parked final : grpc::ServerUnaryReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new Parked;
  }
};

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&jobs_);
    server_ = builder.BuildAndStart();
    connection_ = std::make_unique<Connection>(address(), Credentials::Insecure());
  }
  ~ConnectionTest() override { Stop(); }

  void Stop() {
    if (server_ != nullptr) server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME));
    server_.reset();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  absl::StatusOr<v1::GetJobResponse> Get(uint64_t job) {
    v1::GetJobRequest request;
    request.set_job(job);
    return connection_->Call(&v1::Jobs::Stub::Get, request, kPatience);
  }

  FakeJobs jobs_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, AnAnswerComesBack) { EXPECT_EQ(Get(7)->job().id(), 7u); }

TEST_F(ConnectionTest, AnErrorKeepsCodeAndMessage) {
  EXPECT_EQ(Get(404).status(), absl::NotFoundError("no job 404"));
}

TEST_F(ConnectionTest, ACallThatIsDroppedForWantOfMemoryIsWorthAnotherAttempt) {
  const absl::Status dropped = Get(430).status();
  EXPECT_EQ(dropped.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(dropped.message(), HasSubstr("--memory-max"));
  EXPECT_EQ(Get(429).status(), absl::ResourceExhaustedError("too many unfinished jobs"));
}

TEST_F(ConnectionTest, ACallThatCameTooSoonIsWorthAnotherAttemptLater) {
  const absl::Status rejected = Get(431).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(rejected.message(), HasSubstr("user ann makes too many calls"));
  EXPECT_GT(RetryPolicy({}, /*seed=*/1).Next(rejected, absl::ZeroDuration()),
            absl::Milliseconds(1500));
}

TEST_F(ConnectionTest, UnavailableNamesTheAddress) {
  EXPECT_EQ(Get(503).status(),
            absl::UnavailableError(absl::StrCat("coordinator at ", address(), ": not yet")));
  Stop();
  const absl::Status status = Get(7).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat("coordinator at ", address(), ": ")));
}

// Only then it makes sense to ask whether a coordinator runs there.
TEST_F(ConnectionTest, AnErrorOfACallThatConnectedToNothingIsMarked) {
  for (const uint64_t answered : {431, 499, 502, 503}) {
    EXPECT_EQ(AbsenceIn(Get(answered).status()), Absence::kNone) << answered;
  }
  EXPECT_EQ(
      AbsenceIn(connection_->Call(&v1::Jobs::Stub::Watch, {}, absl::Milliseconds(20)).status()),
      Absence::kNone);
  Stop();
  Get(7).IgnoreError();  // may only see the end of the old connection
  EXPECT_EQ(AbsenceIn(Get(7).status()), Absence::kNothingConnected);
}

TEST_F(ConnectionTest, ANameThatNobodyKnowsConnectsToNothing) {
  connection_ = std::make_unique<Connection>("no.such.host.invalid:1", Credentials::Insecure());
  EXPECT_EQ(AbsenceIn(Get(7).status()), Absence::kNothingConnected);
}

TEST_F(ConnectionTest, AnAttemptEndsAtItsDeadline) {
  const absl::Status status =
      connection_->Call(&v1::Jobs::Stub::Watch, {}, absl::Milliseconds(20)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ConnectionTest, AMissingServiceIsUnimplemented) {
  EXPECT_EQ(connection_->Call(&v1::Workers::Stub::List, {}, kPatience).status().code(),
            absl::StatusCode::kUnimplemented);
}

// A server that shuts down cancels the calls that it has not answered.
TEST_F(ConnectionTest, ACallThatTheCoordinatorDropsIsUnavailable) {
  const absl::Status status = Get(499).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat("coordinator at ", address(), ": the coordinator is stop")));
}

TEST_F(ConnectionTest, ItGoesAfterTheThreadThatHasToldOfTheLastCallsEnd) {
  absl::Notification told, gone;
  const auto call = connection_->StartExecute(
      v1::ExecuteRequest(), kPatience, [&](const absl::StatusOr<v1::ExecuteResponse>&) {
        told.Notify();
        EXPECT_FALSE(gone.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
      });
  told.WaitForNotification();
  connection_.reset();
  gone.Notify();
  call->Cancel();  // a no-op
}

TEST_F(ConnectionTest, CancelAllEndsCallsUnderWayAndLaterOnes) {
  absl::Status status;
  {
    std::jthread waiting(
        [&] { status = connection_->Call(&v1::Jobs::Stub::Watch, {}, kPatience).status(); });
    connection_->CancelAll();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Get(7).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace dp::client
