#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/convert/retry_after.h"
#include "proto/convert/time.h"
#include "server/rpc/testing/services_fixture.h"
#include "server/rpc/testing/tls_fixture.h"

// How many calls a caller may make, and how long it may hold one.

namespace dp::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

// A person and a rank may make ten calls at once here, and a worker a hundred.
class CallRatesTest : public TlsFixture {
 protected:
  CallRatesTest() { calls_.of_caller = 1; }

  static grpc::Status WhoAmI(ClusterClient& caller) {
    return caller.Call(caller.access(), &v1::Access::Stub::WhoAmI, {}).status;
  }
  // Calls until the coordinator rejects one for the rate; returns that error.
  static grpc::Status Flood(ClusterClient& caller) {
    for (int i = 0; i < 10'000; ++i) {
      const grpc::Status status = WhoAmI(caller);
      if (status.error_code() == StatusCode::RESOURCE_EXHAUSTED) return status;
    }
    return grpc::Status::OK;
  }
};

TEST_F(CallRatesTest, AFloodIsRejectedWithTheLimitAndTheTimeToWait) {
  const auto ann = As({Role::kUser, "ann"});
  const grpc::Status flooded = Flood(*ann);
  EXPECT_EQ(flooded.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(flooded.error_message(),
              HasSubstr("user ann makes more than 1 calls a second, which is the limit"));
  EXPECT_THAT(flooded.error_message(), ::testing::ContainsRegex("try again in [0-9]+ms"));
}

TEST_F(CallRatesTest, TheTimeToWaitIsAlsoForOtherClientsOfGrpc) {
  const auto ann = As({Role::kUser, "ann"});
  Flood(*ann);
  grpc::ClientContext context;
  v1::WhoAmIResponse response;
  EXPECT_FALSE(ann->access().WhoAmI(&context, {}, &response).ok());
  const auto& trailing = context.GetServerTrailingMetadata();
  ASSERT_TRUE(trailing.contains(kRetryAfterMetadata));
  const std::string wait_ms(trailing.find(kRetryAfterMetadata)->second.data(),
                            trailing.find(kRetryAfterMetadata)->second.size());
  EXPECT_GT(std::stoi(wait_ms), 0);
  EXPECT_LE(std::stoi(wait_ms), 1'001);
}

TEST_F(CallRatesTest, NobodyElseIsSlowedDown) {
  Flood(*As({Role::kUser, "ann"}));
  EXPECT_TRUE(WhoAmI(*As({Role::kUser, "bob"})).ok());
  EXPECT_TRUE(WhoAmI(*As({Role::kAdmin, "eve"})).ok());
  EXPECT_TRUE(WhoAmI(*As({Role::kWorker, "ann"})).ok());  // the name of a worker, not of a person
}

TEST_F(CallRatesTest, APersonHasOneRateInAllRolesAndOnAllConnections) {
  Flood(*As({Role::kUser, "ann"}));
  EXPECT_EQ(WhoAmI(*As({Role::kAdmin, "ann"})).error_code(), StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(CallRatesTest, AWorkerMayMakeTenTimesAsManyCalls) {
  const auto worker = As({Role::kWorker, "w"});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(WhoAmI(*worker).ok()) << i;
  EXPECT_THAT(Flood(*worker).error_message(), HasSubstr("worker w makes more than 10 calls"));
}

TEST_F(CallRatesTest, WhateverAWorkerCallsItsHeartbeatsAreHeard) {
  const auto worker = As({Role::kWorker, "w"});
  v1::HeartbeatRequest beat;
  beat.set_worker_id(worker->Register("w", 1)->worker_id());
  beat.set_incarnation(1);
  EXPECT_EQ(Flood(*worker).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const auto heard = worker->Call(worker->workers(), &v1::Workers::Stub::Heartbeat, beat);
  EXPECT_TRUE(heard.ok()) << heard.status.error_message();
}

TEST_F(CallRatesTest, ARankHasARateOfItsOwn) {
  EXPECT_TRUE(As({Role::kWorker, "w"})->Register("w", 2).ok());
  const auto job =
      As({Role::kUser, "ann"})->Submit(ClusterClient::AJob("job", 2), "request")->job();
  const auto rank = [&](int number) {
    return As(WithToken({{JobId(job.id()), Generation(1), number}, FromProto(job.submitted_at())}));
  };
  EXPECT_THAT(Flood(*rank(0)).error_message(), HasSubstr("rank 0 of job 1 makes more than 1 "));
  EXPECT_TRUE(WhoAmI(*rank(1)).ok());
}

TEST_F(CallRatesTest, TheThiefOfACertificateDoesNotSlowDownWhomItNamed) {
  const auto thief = As(Revoked({Role::kUser, "ann"}));
  EXPECT_EQ(WhoAmI(*thief).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(Flood(*thief).error_message(), HasSubstr("more than 0.1 calls a second"));
  // A certificate that has not called yet counts as ann's, though the revocation includes it.
  EXPECT_EQ(WhoAmI(*As({Role::kUser, "ann"})).error_code(), StatusCode::UNAUTHENTICATED);
}

TEST_F(CallRatesTest, ATokenOfAnotherGenerationDoesNotSlowDownTheRank) {
  EXPECT_TRUE(As({Role::kWorker, "w"})->Register("w", 1).ok());
  const auto job = As({Role::kUser, "ann"})->Submit(ClusterClient::AJob("job"), "request")->job();
  const auto rank = [&](uint64_t generation) {
    return As(
        WithToken({{JobId(job.id()), Generation(generation), 0}, FromProto(job.submitted_at())}));
  };
  Flood(*rank(7));
  EXPECT_TRUE(WhoAmI(*rank(1)).ok());
}

// Also those whose credential does not count: they could have many.
TEST_F(CallRatesTest, CallersThatProveNothingShareTheRateOfTheirAddress) {
  EXPECT_THAT(Flood(*As(Nobody())).error_message(),
              HasSubstr("a caller without a credential makes more than 0.1 calls a second"));
  EXPECT_EQ(WhoAmI(*As(WithToken("wrong"))).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(WhoAmI(*As({Role::kUser, "ann"})).ok());
}

TEST_F(CallRatesTest, RejectedCallsAreOnRecord) {
  const auto ann = As({Role::kUser, "ann"});
  Flood(*ann), Flood(*ann);
  const auto admin = As({Role::kAdmin, "eve"});
  const auto refusals = admin->Call(admin->access(), &v1::Access::Stub::ListRefusals, {});
  ASSERT_EQ(refusals->refusals_size(), 1);
  EXPECT_EQ(refusals->refusals(0).caller(), "user ann");
  EXPECT_GE(refusals->refusals(0).count(), 2u);
}

// Some calls end with their headers. A person may begin twenty without a message at once, a worker
// 200, and all strangers eight.
class HeaderRatesTest : public CallRatesTest {
 protected:
  HeaderRatesTest() { calls_ = {.of_caller = 10, .headers_of_strangers = 2}; }

  // Calls without a message, on one connection.
  class Begun {
   public:
    explicit Begun(ClusterClient& caller, int calls) : stub_(caller.channel()) {
      for (int i = 0; i < calls; ++i) {
        Call& call = calls_.emplace_back();
        call.context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
        call.stream = stub_.PrepareCall(&call.context, "/dp.v1.Access/WhoAmI", &queue_);
        call.stream->StartCall(nullptr);
        call.stream->Finish(&call.status, &call);
      }
    }
    ~Begun() {
      for (Call& call : calls_) call.context.TryCancel();
      queue_.Shutdown();
      while (queue_.Next(&tag_, &ok_)) {
      }
    }
    // The error of the first that ends.
    std::string FirstError() {
      do {
        queue_.Next(&tag_, &ok_);
      } while (tag_ == nullptr);
      return static_cast<Call*>(tag_)->status.error_message();
    }

   private:
    struct Call {
      grpc::ClientContext context;
      std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
      grpc::Status status;
    };
    grpc::GenericStub stub_;
    grpc::CompletionQueue queue_;
    std::list<Call> calls_;
    void* tag_ = nullptr;
    bool ok_ = false;
  };

  // Proves by a whole call who calls, and floods.
  static std::string EndedEarly(ClusterClient& caller) {
    EXPECT_TRUE(WhoAmI(caller).ok());
    return Begun(caller, 500).FirstError();
  }
  // Without proof a flood must be small. A client on a busy machine may not read its answers for a
  // while, and 16 KiB of them end such a connection (StrangerConnections).
  static std::string EndedEarlyUnproven(ClusterClient& caller, int calls) {
    return Begun(caller, calls).FirstError();
  }

  static constexpr char kStrangers[] = "callers without a credential have begun too many calls";
};

TEST_F(HeaderRatesTest, WhoeverBeginsTooManyIsRejectedAtOnce) {
  EXPECT_THAT(EndedEarly(*As({Role::kUser, "ann"})),
              HasSubstr("user ann has begun too many calls without their messages"));
  EXPECT_TRUE(WhoAmI(*As({Role::kUser, "bob"})).ok());
}

TEST_F(HeaderRatesTest, CallsThatComeWholeCountNoMore) {
  const auto ann = As({Role::kUser, "ann"});
  for (int i = 0; i < 90; ++i) EXPECT_TRUE(WhoAmI(*ann).ok()) << i;
}

TEST_F(HeaderRatesTest, StrangersShareOneRateAndSlowDownNobodyKnown) {
  const auto ann = As({Role::kUser, "ann"});
  EXPECT_THAT(EndedEarlyUnproven(*As(Nobody()), 30), HasSubstr(kStrangers));
  EXPECT_THAT(EndedEarlyUnproven(*As(WithToken("wrong")), 30), HasSubstr(kStrangers));
  EXPECT_TRUE(WhoAmI(*ann).ok());
}

// Each flood has its own connection: between two of them a client would not read its answers, which
// ends a stranger's connection. All stay open, because the gate may take a new connection for one
// that has just closed (CheckHeadersOfStranger).
TEST_F(HeaderRatesTest, AStrangersFirstCallsGoOnWhateverOthersDo) {
  std::vector<std::unique_ptr<ClusterClient>> clients;
  for (int i = 0; i < 9; ++i) {
    ClusterClient& flooder = *clients.emplace_back(As(Nobody()));
    EXPECT_THAT(EndedEarlyUnproven(flooder, 30), HasSubstr(kStrangers));
    ClusterClient& probe = *clients.emplace_back(As(Nobody()));
    for (int call : {1, 2}) EXPECT_NE(WhoAmI(probe).error_code(), StatusCode::UNAVAILABLE) << call;
  }
}

TEST_F(HeaderRatesTest, AWrongTokenMakesNoStrangerOfSomebodyKnown) {
  const auto ann = As(WithToken("wrong", CredentialsOf({Role::kUser, "ann"})));
  EXPECT_THAT(EndedEarlyUnproven(*ann, 70), HasSubstr("user ann has begun too many calls"));
}

TEST_F(HeaderRatesTest, HeartbeatsAreHeardWhateverTheirWorkerCalls) {
  const auto worker = As({Role::kWorker, "w"});
  v1::HeartbeatRequest beat;
  beat.set_worker_id(worker->Register("w", 1)->worker_id());
  beat.set_incarnation(1);
  EXPECT_THAT(EndedEarly(*worker), HasSubstr("worker w has begun too many calls"));
  for (int i = 0; i < 20; ++i) {
    const auto heard = worker->Call(worker->workers(), &v1::Workers::Stub::Heartbeat, beat);
    EXPECT_TRUE(heard.ok()) << heard.status.error_message();
  }
}

TEST_F(HeaderRatesTest, CallsThatEndWithTheirHeadersAreOnRecord) {
  EndedEarly(*As({Role::kUser, "ann"}));
  const auto admin = As({Role::kAdmin, "eve"});
  const auto refusals = admin->Call(admin->access(), &v1::Access::Stub::ListRefusals, {});
  ASSERT_EQ(refusals->refusals_size(), 1);
  EXPECT_EQ(refusals->refusals(0).caller(), "user ann");
  EXPECT_EQ(refusals->refusals(0).peer(), "");
  EXPECT_THAT(refusals->refusals(0).reason(), HasSubstr("user ann has begun too many calls"));
}

// A person may have 64 calls in flight here.
class CallsInFlightTest : public CallRatesTest {
 protected:
  CallsInFlightTest() { calls_ = {.of_caller = 10}; }

  // A call that waits for a change of the job until this object ends.
  class Waiting {
   public:
    Waiting(ClusterClient& caller, const v1::Job& job) {
      request_.set_job(job.id());
      request_.set_since(job.version());
      request_.mutable_timeout()->set_seconds(60);
      caller.jobs().async()->Watch(&context_, &request_, &response_,
                                   [this](const grpc::Status&) { ended_.Notify(); });
    }
    ~Waiting() {
      context_.TryCancel();
      ended_.WaitForNotification();
    }

   private:
    grpc::ClientContext context_;
    v1::WatchJobRequest request_;
    v1::WatchJobResponse response_;
    absl::Notification ended_;
  };
};

TEST_F(CallsInFlightTest, WhoeverHasTooManyBeginsNoMoreUntilSomeHaveEnded) {
  const auto ann = As({Role::kUser, "ann"}), bob = As({Role::kUser, "bob"});
  const uint64_t id = ann->Submit(ClusterClient::AJob("job"), "request")->job().id();
  const v1::Job job = ann->GetJob(id)->job();
  std::list<Waiting> waiting;
  for (size_t i = 1; i <= 64; ++i) {
    waiting.emplace_back(*ann, job);
    AwaitParked(i);
  }
  const grpc::Status rejected = WhoAmI(*ann);
  EXPECT_EQ(rejected.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(rejected.error_message(), HasSubstr("user ann has too many calls in flight"));
  EXPECT_TRUE(WhoAmI(*bob).ok());
  waiting.clear();
  AwaitParked(0);
  bool may_call = false;  // gRPC ends them in a moment
  for (int i = 0; i < 10'000 && !may_call; ++i) may_call = WhoAmI(*ann).ok();
  EXPECT_TRUE(may_call);
}

class PlainTextRateTest : public CallRatesTest {
 protected:
  PlainTextRateTest() { plain_text_ = true; }
};

TEST_F(PlainTextRateTest, CallersInPlainTextHaveNoNameAndNoRate) {
  const auto caller = As(grpc::InsecureChannelCredentials());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(WhoAmI(*caller).ok()) << i;
}

// Strangers may send 21 MiB at once.
class BytesOfStrangersTest : public TlsFixture {
 protected:
  // Messages of a mebibyte, until one gets no answer. Returns how many were answered.
  static int SendMuch(ClusterClient& caller) {
    v1::SubmitRequest request;
    request.set_request_id(std::string(1 << 20, 'x'));
    for (int answered = 0; answered < kMessages; ++answered) {
      const auto status = caller.Call(caller.jobs(), &v1::Jobs::Stub::Submit, request).status;
      if (status.error_code() == StatusCode::UNAVAILABLE) return answered;
    }
    return kMessages;
  }

  static constexpr int kMessages = 100;
};

TEST_F(BytesOfStrangersTest, APersonOrARankSendsAsMuchAsItLikes) {
  const auto ann = As({Role::kUser, "ann"});
  EXPECT_EQ(SendMuch(*ann), kMessages);
  const auto rank = As(WithToken({{JobId(1), Generation(1), 0}, absl::Now()}));
  EXPECT_EQ(SendMuch(*rank), kMessages);
  const auto admin = As({Role::kAdmin, "eve"});
  const auto refusals = admin->Call(admin->access(), &v1::Access::Stub::ListRefusals, {});
  for (const v1::Refusal& refusal : refusals->refusals()) EXPECT_NE(refusal.rpc(), "(connection)");
}

TEST_F(BytesOfStrangersTest, AStrangersConnectionIsShutDownAndListed) {
  EXPECT_LT(SendMuch(*As(Nobody())), kMessages);
  const auto admin = As({Role::kAdmin, "eve"});
  const auto refusals = admin->Call(admin->access(), &v1::Access::Stub::ListRefusals, {});
  std::string peers, reasons;
  for (const v1::Refusal& refusal : refusals->refusals()) {
    if (refusal.rpc() != "(connection)") continue;
    peers += refusal.peer();
    reasons += refusal.reason();
  }
  EXPECT_THAT(peers, HasSubstr("127.0.0.1:"));
  EXPECT_THAT(reasons, HasSubstr("127.0.0.1 sends too much without proving who calls"));
}

class ShortCallsTest : public ServicesFixture {
 protected:
  ShortCallsTest() { server_options_.open_calls.lasts = absl::Milliseconds(100); }
};

TEST_F(ShortCallsTest, ACallThatWaitsTooLongIsEnded) {
  const uint64_t job = client_->Submit(ClusterClient::AJob("job"), "request")->job().id();
  const auto watched = WatchJob(job, client_->GetJob(job)->job().version(), /*seconds=*/60);
  EXPECT_FALSE(watched.ok());
  AwaitParked(0);
}

}  // namespace
}  // namespace dp::server
