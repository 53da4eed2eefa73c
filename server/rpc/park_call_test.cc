#include "server/rpc/park_call.h"

#include <future>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "server/rpc/testing/services_fixture.h"

// Tests waits over a stream, through a real channel. The stream's own wait is parked beside them.

namespace dp::server {
namespace {

using ::testing::HasSubstr;

// A client of Park, used on the test's thread only.
class Stream {
 public:
  explicit Stream(v1::Store::Stub& store) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + kLong));
    stream_ = store.Park(&context_);
  }

  static v1::ParkedWait Wait(uint64_t id, uint64_t job, const std::string& key) {
    v1::ParkedWait wait;
    wait.set_id(id);
    wait.mutable_await()->set_job(job);
    wait.mutable_await()->set_generation(1);
    wait.mutable_await()->set_each(true);
    wait.mutable_await()->add_reads()->mutable_get()->set_key(key);
    return wait;
  }
  bool Begin(const v1::ParkRequest& request) { return stream_->Write(request); }
  bool Begin(v1::ParkedWait wait) {
    v1::ParkRequest request;
    *request.add_waits() = std::move(wait);
    return stream_->Write(request);
  }
  bool Begin(uint64_t id, uint64_t job, const std::string& key) {
    return Begin(Wait(id, job, key));
  }
  // Begins waits with ids from 1, as many per message as the driver has room for.
  void BeginAll(size_t waits, uint64_t job, const std::string& key) {
    for (size_t id = 1; id <= waits;) {
      v1::ParkRequest some;
      for (int i = 0; i < 512 && id <= waits; ++i) *some.add_waits() = Wait(id++, job, key);
      Begin(some);
    }
  }
  bool GiveUp(uint64_t id) {
    v1::ParkRequest request;
    request.add_cancelled(id);
    return stream_->Write(request);
  }
  // Reads until there are `count` answers; returns them by id.
  std::map<uint64_t, v1::ParkedAnswer> Read(size_t count = 1) {
    std::map<uint64_t, v1::ParkedAnswer> answers;
    v1::ParkResponse response;
    while (answers.size() < count && stream_->Read(&response)) {
      for (v1::ParkedAnswer& answer : *response.mutable_answers()) {
        const uint64_t id = answer.id();
        answers[id] = std::move(answer);
      }
    }
    EXPECT_EQ(answers.size(), count);
    return answers;
  }
  // Reads up to the answer of wait `id`.
  std::map<uint64_t, v1::ParkedAnswer> ReadUpTo(uint64_t id) {
    std::map<uint64_t, v1::ParkedAnswer> answers;
    v1::ParkResponse response;
    while (!answers.contains(id) && stream_->Read(&response)) {
      for (v1::ParkedAnswer& answer : *response.mutable_answers()) {
        const uint64_t answered = answer.id();
        answers[answered] = std::move(answer);
      }
    }
    return answers;
  }
  void Leave() { context_.TryCancel(); }
  void SayNoMore() { stream_->WritesDone(); }
  // The status that ends the stream, after all answers have been read.
  grpc::Status End() {
    v1::ParkResponse response;
    while (stream_->Read(&response)) {
    }
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ParkRequest, v1::ParkResponse>> stream_;
};

class ParkCallTest : public ServicesFixture {
 protected:
  std::unique_ptr<Stream> Open() { return std::make_unique<Stream>(client_->store()); }
};

TEST_F(ParkCallTest, EachWaitGetsItsAnswerWhateverTheirOrder) {
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  stream->Begin(1, job, "a");
  stream->Begin(2, job, "b");
  AwaitParked(2 + 1);
  client_->Set(job, "b", "2", 1);
  EXPECT_EQ(stream->Read().at(2).response().results(0).value(), "2");
  client_->Set(job, "a", "1", 2);
  EXPECT_EQ(stream->Read().at(1).response().results(0).value(), "1");
  AwaitParked(1);
  stream->Begin(1, job, "a");  // the id is free again
  EXPECT_EQ(stream->Read().at(1).response().results(0).value(), "1");
}

TEST_F(ParkCallTest, AnErrorIsOneWaitsAlone) {
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  v1::ParkedWait wrong = Stream::Wait(1, job, "key");
  wrong.mutable_await()->add_reads()->mutable_queue_pop()->set_key("queue");
  stream->Begin(std::move(wrong));
  EXPECT_EQ(stream->Read().at(1).code(), grpc::StatusCode::INVALID_ARGUMENT);
  stream->Begin(2, job + 1, "key");
  EXPECT_EQ(stream->Read().at(2).code(), grpc::StatusCode::NOT_FOUND);
  client_->Set(job, "key", "value", 1);
  stream->Begin(3, job, "key");
  EXPECT_EQ(stream->Read().at(3).response().results(0).value(), "value");
}

TEST_F(ParkCallTest, AWaitWithATimeoutEndsWithWhatWasFound) {
  const uint64_t job = PlacedJob();
  client_->Set(job, "key", "value", 1);
  v1::ParkedWait wait = Stream::Wait(1, job, "missing");
  wait.mutable_await()->add_reads()->mutable_get()->set_key("key");
  wait.mutable_await()->mutable_timeout();
  const auto stream = Open();
  stream->Begin(std::move(wait));
  const v1::ParkedAnswer answer = stream->Read().at(1);
  EXPECT_FALSE(answer.response().results(0).found());
  EXPECT_TRUE(answer.response().results(1).found());
}

TEST_F(ParkCallTest, AWaitThatIsGivenUpIsParkedNoMoreAndTheOthersStay) {
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  stream->Begin(1, job, "key");
  stream->Begin(2, job, "key");
  AwaitParked(2 + 1);
  stream->GiveUp(1);
  stream->GiveUp(99);
  AwaitParked(1 + 1);
  EXPECT_EQ(client_->ListWaiters(job)->waiters_size(), 1);
  client_->Set(job, "key", "value", 1);
  EXPECT_TRUE(stream->Read().contains(2));
}

TEST_F(ParkCallTest, NothingStaysParkedOfAClientThatLeaves) {
  const uint64_t job = PlacedJob();
  for (const bool politely : {false, true}) {
    const auto stream = Open();
    for (uint64_t id = 1; id <= 100; ++id) stream->Begin(id, job, "key");
    AwaitParked(100 + 1);
    politely ? stream->SayNoMore() : stream->Leave();
    AwaitParked(0);
    EXPECT_EQ(stream->End().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(ParkCallTest, TheGenerationsEndEndsItsWaitsAndNotTheStream) {
  const uint64_t over = PlacedJob();
  const auto stream = Open();
  stream->Begin(1, over, "key");
  stream->Begin(2, over, "other");
  AwaitParked(2 + 1);
  FinishJob(over);
  for (const auto& [id, answer] : stream->Read(2)) {
    EXPECT_EQ(answer.code(), grpc::StatusCode::ABORTED);
  }
  const uint64_t next = client_->Submit(ClusterClient::AJob("next"), "next")->job().id();
  client_->Set(next, "key", "value", 1);
  stream->Begin(3, next, "key");
  EXPECT_EQ(stream->Read().at(3).response().results(0).value(), "value");
}

TEST_F(ParkCallTest, ACoordinatorThatStopsEndsStreamsWithWaitsAndWithout) {
  const uint64_t job = PlacedJob();
  const auto busy = Open(), idle = Open();
  busy->Begin(1, job, "key");
  AwaitParked(1 + 2);
  driver_->Stop();
  for (const auto* stream : {&busy, &idle}) {
    const grpc::Status end = (*stream)->End();
    EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(end.error_message(), HasSubstr("stopping"));
  }
  EXPECT_EQ(Open()->End().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ParkCallTest, AJournalThatFailsEndsAStreamWithTheReason) {
  const auto stream = Open();
  AwaitParked(1);
  std::promise<void> failing;
  ASSERT_TRUE(driver_
                  ->Ask([&](const absl::Status&, const View&) {
                    journal_.FailWith(absl::ResourceExhaustedError("disk full"));
                    failing.set_value();
                  })
                  .ok());
  failing.get_future().wait();
  EXPECT_FALSE(client_->Register("w", 1).ok());
  const grpc::Status end = stream->End();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(end.error_message(), HasSubstr("its journal failed: disk full"));
}

TEST_F(ParkCallTest, AnIdThatIsInUseEndsTheStream) {
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  stream->Begin(7, job, "key");
  stream->Begin(7, job, "key");
  const grpc::Status end = stream->End();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(end.error_message(), "wait 7 is open already");
  AwaitParked(0);
}

TEST_F(ParkCallTest, TenThousandWaitsAreHeldAndAnswered) {
  constexpr size_t kWaits = 10'000;
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  stream->BeginAll(kWaits, job, "key");
  AwaitParked(kWaits + 1);
  client_->Set(job, "key", "value", 1);
  for (const auto& [id, answer] : stream->Read(kWaits)) EXPECT_EQ(answer.code(), 0) << id;
  AwaitParked(1);
}

TEST_F(ParkCallTest, OneWaitMoreThanThereIsRoomForIsToldSo) {
  const size_t most = ParkCall::Limits().waits;
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  stream->BeginAll(most, job, "key");
  AwaitParked(most + 1);
  stream->Begin(most + 1, job, "key");
  EXPECT_EQ(stream->Read().at(most + 1).code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::ParkRequest too_many;
  for (size_t id = 0; id <= most; ++id) too_many.add_waits();
  stream->Begin(too_many);
  EXPECT_EQ(stream->End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  AwaitParked(0);
}

// A request of about 1 MiB: the longest keys, then `last`.
v1::ParkedWait LargeWait(uint64_t id, uint64_t job, const std::string& last) {
  v1::ParkedWait wait = Stream::Wait(id, job, std::string(8000, 'a'));
  for (int i = 0; i < 130; ++i) {
    wait.mutable_await()->add_reads()->mutable_get()->set_key(
        absl::StrCat(std::string(8000, 'a'), i));
  }
  wait.mutable_await()->add_reads()->mutable_get()->set_key(last);
  return wait;
}

TEST_F(ParkCallTest, WaitsOfTooManyBytesAreRefusedAndThoseThatEndMakeRoom) {
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  uint64_t id = 0;
  for (int round = 0; round < 2; ++round) {
    uint64_t open = 0;
    for (bool refused = false; !refused; ++open) {
      ASSERT_LT(open, 70u);  // 64 MiB
      v1::ParkRequest request;
      *request.add_waits() = LargeWait(++id, job, "never");
      v1::ParkedWait& probe = *request.add_waits();  // answered after the large one
      probe = Stream::Wait(1'000'000 + id, job, "never");
      probe.mutable_await()->mutable_timeout();
      stream->Begin(request);
      const auto answers = stream->ReadUpTo(probe.id());
      refused = answers.contains(id);
      if (!refused) continue;
      EXPECT_EQ(answers.at(id).code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
      EXPECT_THAT(answers.at(id).message(), HasSubstr("let fewer processes wait at once"));
    }
    EXPECT_GE(open, 60u);
    for (uint64_t given_up = id - open + 1; given_up < id; ++given_up) stream->GiveUp(given_up);
    AwaitParked(1);
  }
}

TEST_F(ParkCallTest, AnswersThatAreTakenMakeRoomForMore) {
  const uint64_t job = PlacedJob();
  client_->Set(job, "key", std::string(size_t{1} << 20, 'v'), 1);
  const auto stream = Open();
  for (uint64_t id = 1; id <= 40; ++id) {
    stream->Begin(id, job, "key");
    EXPECT_EQ(stream->Read().at(id).code(), 0);
  }
}

// A slow reader's answers do not pile up at the coordinator: those without room are requested
// again.
TEST_F(ParkCallTest, ASlowReaderGetsEachValueAtTheSecondTimeOfAsking) {
  constexpr uint64_t kWaits = 100;
  const uint64_t job = PlacedJob();
  const auto stream = Open();
  for (uint64_t id = 1; id <= kWaits; ++id) stream->Begin(id, job, "key");
  AwaitParked(kWaits + 1);
  client_->Set(job, "key", std::string(size_t{1} << 20, 'v'), 1);
  AwaitParked(1);
  std::vector<uint64_t> later;
  for (const auto& [id, answer] : stream->Read(kWaits)) {
    if (answer.code() == 0) continue;
    EXPECT_EQ(answer.code(), grpc::StatusCode::DEADLINE_EXCEEDED) << answer.message();
    later.push_back(id);
  }
  // The coordinator keeps 16 MiB, beside what gRPC has taken over meanwhile.
  EXPECT_GE(later.size(), kWaits / 2);
  EXPECT_LE(later.size(), kWaits - 15);
  for (const uint64_t id : later) {
    stream->Begin(id, job, "key");
    EXPECT_EQ(stream->Read().at(id).response().results(0).value().size(), size_t{1} << 20);
  }
}

}  // namespace
}  // namespace dp::server
