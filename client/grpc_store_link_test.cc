#include "client/grpc_store_link.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/testing/link_ends.h"
#include "dp/v1/store.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

// A relay's waits over a real channel, against a coordinator that the test plays.

namespace dp::client {
namespace {

constexpr char kEndOfRank3[] = "10.0.0.1:1";

// Records requests, and answers on demand. Thread-safe.
class FakeStoreService final : public v1::Store::CallbackService {
 public:
  using Reactor = grpc::ServerBidiReactor<v1::ParkRequest, v1::ParkResponse>;

  Reactor* Park(grpc::CallbackServerContext*) override {
    MutexLock lock(mu_);
    ++streams_;
    if (older_) return new Refusal;
    stream_ = new Stream(*this);
    unfinished_.insert(stream_);
    return stream_;
  }
  // Answers at once that none of the reads was found.
  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext* context,
                                  const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override {
    MutexLock lock(mu_);
    ++awaits_;
    changed_.NotifyAll();
    for (int i = 0; i < request->reads_size(); ++i) response->add_results();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(away_ ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "away") : grpc::Status::OK);
    return reactor;
  }

  // Acts as a coordinator of an older release, which does not know Park, or as one that goes away.
  void BeOlder(bool older, bool away) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    older_ = older;
    away_ = away;
  }
  // Returns the first wait once `count` waits are open.
  v1::AwaitRequest AwaitOpen(size_t count) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (open_.size() != count) {
      if (!changed_.WaitFor(mu_, kLinkPatience)) return {};
    }
    return count == 0 ? v1::AwaitRequest() : open_.begin()->second;
  }
  void Answer() DP_EXCLUDES(mu_) {
    Stream* stream;
    {
      MutexLock lock(mu_);
      stream = stream_;
      answers_.Clear();
      for (const auto& [id, request] : std::exchange(open_, {})) {
        v1::ParkedAnswer& answer = *answers_.add_answers();
        answer.set_id(id);
        answer.mutable_response()->add_results()->set_found(true);
        answer.mutable_response()->mutable_results(0)->set_value(request.reads(0).get().key());
      }
      answers_.add_answers()->set_id(12345);  // to a cancelled wait, for example
    }
    stream->StartWrite(&answers_);
  }
  void EndStream(const grpc::Status& status) DP_EXCLUDES(mu_) {
    Stream* stream;
    {
      MutexLock lock(mu_);
      stream = stream_;
      unfinished_.erase(stream);
      ForgetLatest();
    }
    stream->Finish(status);
  }
  int streams() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return streams_;
  }
  int awaits() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return awaits_;
  }
  std::vector<uint64_t> cancelled() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return cancelled_;
  }

 private:
  class Stream final : public Reactor {
   public:
    explicit Stream(FakeStoreService& service) : service_(service) { StartRead(&request_); }
    void OnReadDone(bool ok) override {
      if (!ok) return service_.Gone(this);
      service_.Take(request_);
      StartRead(&request_);
    }
    void OnDone() override { delete this; }

   private:
    FakeStoreService& service_;
    v1::ParkRequest request_;
  };
  class Refusal final : public Reactor {
   public:
    Refusal() { Finish({grpc::StatusCode::UNIMPLEMENTED, ""}); }
    void OnDone() override { delete this; }
  };

  // The client has left, or this side has ended the stream. The client may have a newer one.
  void Gone(Stream* stream) DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (unfinished_.erase(stream) == 0) return;  // EndStream finishes it
      if (stream_ == stream) ForgetLatest();
    }
    stream->Finish(grpc::Status::CANCELLED);
  }
  void ForgetLatest() DP_REQUIRES(mu_) {
    stream_ = nullptr;
    open_.clear();
    changed_.NotifyAll();
  }
  void Take(const v1::ParkRequest& request) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (const v1::ParkedWait& wait : request.waits()) open_[wait.id()] = wait.await();
    for (const uint64_t id : request.cancelled()) cancelled_.push_back(id), open_.erase(id);
    changed_.NotifyAll();
  }

  mutable Mutex mu_;
  CondVar changed_;
  Stream* stream_ DP_GUARDED_BY(mu_) = nullptr;      // the latest
  std::set<Stream*> unfinished_ DP_GUARDED_BY(mu_);  // the server waits for these when it ends
  std::map<uint64_t, v1::AwaitRequest> open_ DP_GUARDED_BY(mu_);
  std::vector<uint64_t> cancelled_ DP_GUARDED_BY(mu_);
  v1::ParkResponse answers_;
  bool older_ DP_GUARDED_BY(mu_) = false;
  bool away_ DP_GUARDED_BY(mu_) = false;
  int streams_ DP_GUARDED_BY(mu_) = 0;
  int awaits_ DP_GUARDED_BY(mu_) = 0;
};

class GrpcStoreLinkTest : public testing::Test {
 protected:
  GrpcStoreLinkTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    connection_ =
        std::make_unique<Connection>(absl::StrCat("127.0.0.1:", port_), Credentials::Insecure());
    link_ = std::make_unique<GrpcStoreLink>(
        *connection_, GrpcStoreLink::Options{.job = JobId(1), .incarnation = 7, .worker = "w"});
  }
  ~GrpcStoreLinkTest() override {
    link_.reset();
    connection_.reset();
    server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME));
  }

  // A relay of worker w, which knows that kEndOfRank3 is an end of rank 3.
  void Connect(bool for_other_hosts) {
    GrpcStoreLink::Options options{.job = JobId(1), .incarnation = 7, .worker = "w"};
    options.rank_at = [](const std::string& end) {
      return end == kEndOfRank3 ? std::optional(3) : std::nullopt;
    };
    options.for_other_hosts = for_other_hosts;
    link_ = std::make_unique<GrpcStoreLink>(*connection_, std::move(options));
  }
  std::shared_ptr<StoreLink::Call> Await(const std::string& key, StoreLink::Waiter waiter = {}) {
    return link_->Await({StoreGet{key}}, waiter, ends_.Of(key));
  }

  int port_ = 0;
  FakeStoreService service_;
  std::unique_ptr<grpc::Server> server_;
  LinkEnds ends_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<GrpcStoreLink> link_;
};

TEST_F(GrpcStoreLinkTest, AllWaitsShareOneStreamAndEachGetsItsAnswer) {
  for (int i = 0; i < 100; ++i) Await(absl::StrCat("k", i));
  service_.AwaitOpen(100);
  service_.Answer();
  for (int i = 0; i < 100; ++i) {
    const std::string key = absl::StrCat("k", i);
    EXPECT_EQ(ends_.Await(key)->at(0).value, key);
  }
  Await("later");
  service_.AwaitOpen(1);
  EXPECT_EQ(service_.streams(), 1);
  EXPECT_EQ(service_.awaits(), 0);
}

// The server takes messages of 4 MiB.
TEST_F(GrpcStoreLinkTest, LargeWaitsGoInSeveralMessages) {
  const std::string large(900'000, 'k');
  for (int i = 0; i < 20; ++i) Await(absl::StrCat(large, i));
  service_.AwaitOpen(20);
  service_.Answer();
  for (int i = 0; i < 20; ++i) {
    const std::string key = absl::StrCat(large, i);
    EXPECT_EQ(ends_.Await(key)->at(0).value, key);
  }
}

TEST_F(GrpcStoreLinkTest, ARankOfThisWorkerIsNamedAndItsWaitLasts) {
  for (const bool for_other_hosts : {false, true}) {
    Connect(for_other_hosts);
    Await("k", {.waited = absl::Seconds(3), .peer = kEndOfRank3});
    const v1::AwaitRequest heard = service_.AwaitOpen(1);
    EXPECT_EQ(heard.who(), "rank 3 on w");
    EXPECT_EQ(heard.rank(), 3);
    EXPECT_EQ(heard.peer(), "");
    EXPECT_EQ(heard.waited().seconds(), 3);
    EXPECT_TRUE(heard.each());
    EXPECT_FALSE(heard.has_timeout());
    service_.Answer();
    ends_.Take("k");
  }
}

TEST_F(GrpcStoreLinkTest, AWaitIsBoundedInTimeWhileItsRankMayStillBecomeKnown) {
  Connect(/*for_other_hosts=*/false);
  Await("k", {.peer = "127.0.0.1:2"});
  const v1::AwaitRequest heard = service_.AwaitOpen(1);
  EXPECT_EQ(heard.who(), "a rank on w");
  EXPECT_FALSE(heard.has_rank());
  EXPECT_EQ(heard.peer(), "");
  EXPECT_EQ(heard.timeout().seconds(), 10);
  service_.Answer();
  ends_.Take("k");
  Await("k", {.waited = absl::Seconds(30), .peer = "127.0.0.1:2"});
  EXPECT_FALSE(service_.AwaitOpen(1).has_timeout());
}

TEST_F(GrpcStoreLinkTest, OfWhoMayBeOnAnotherHostTheEndOfItsConnectionIsTold) {
  Connect(/*for_other_hosts=*/true);
  Await("k", {.peer = "10.0.0.2:1"});
  const v1::AwaitRequest heard = service_.AwaitOpen(1);
  EXPECT_EQ(heard.who(), "a rank");
  EXPECT_FALSE(heard.has_rank());
  EXPECT_EQ(heard.peer(), "10.0.0.2:1");
}

TEST_F(GrpcStoreLinkTest, AWaitThatIsGivenUpEndsAtOnceAndIsTakenFromTheCoordinator) {
  const auto one = Await("one"), two = Await("two");
  service_.AwaitOpen(2);
  one->Cancel();
  EXPECT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_.Await("one").status().code(), absl::StatusCode::kCancelled);
  service_.AwaitOpen(1);
  one->Cancel();  // a no-op
  Await("three");
  service_.AwaitOpen(2);
  EXPECT_EQ(service_.cancelled().size(), 1u);
  service_.Answer();
  EXPECT_TRUE(ends_.Await("two").ok());
  EXPECT_TRUE(ends_.Await("three").ok());
}

TEST_F(GrpcStoreLinkTest, TheStreamsEndEndsEachWaitOnceAndTheNextOpensAnother) {
  for (int i = 0; i < 20; ++i) Await(absl::StrCat("k", i));
  service_.AwaitOpen(20);
  service_.EndStream({grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ends_.Await(absl::StrCat("k", i)).status().code(), absl::StatusCode::kUnavailable);
  }
  Await("next");
  service_.AwaitOpen(1);
  EXPECT_EQ(service_.streams(), 2);
}

TEST_F(GrpcStoreLinkTest, AConnectionThatBreaksEndsItsWaits) {
  Await("k");
  service_.AwaitOpen(1);
  server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME));
  EXPECT_EQ(ends_.Await("k").status().code(), absl::StatusCode::kUnavailable);
  Await("next");
  EXPECT_EQ(ends_.Await("next").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GrpcStoreLinkTest, ItsOwnEndIsThatOfItsWaits) {
  Await("k");
  service_.AwaitOpen(1);
  link_.reset();
  EXPECT_EQ(ends_.Await("k").status().code(), absl::StatusCode::kCancelled);
  service_.AwaitOpen(0);
}

TEST_F(GrpcStoreLinkTest, WithACoordinatorThatKnowsNoStreamWaitsAreCallsUntilThereIsAnother) {
  service_.BeOlder(true, /*away=*/false);
  Await("told");
  EXPECT_EQ(ends_.Await("told").status().code(), absl::StatusCode::kUnavailable);
  for (const char* key : {"one", "two"}) {
    Await(key);
    EXPECT_FALSE(ends_.Await(key)->at(0).found);
  }
  EXPECT_EQ(service_.streams(), 1);
  EXPECT_EQ(service_.awaits(), 2);
  service_.BeOlder(false, /*away=*/true);
  Await("lost");
  EXPECT_EQ(ends_.Await("lost").status().code(), absl::StatusCode::kUnavailable);
  Await("next");
  service_.AwaitOpen(1);
  EXPECT_EQ(service_.streams(), 2);
}

}  // namespace
}  // namespace dp::client
