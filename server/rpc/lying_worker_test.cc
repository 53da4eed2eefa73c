// A worker with a good certificate that lies about what is not its own.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

using testing::HasSubstr;

class LyingWorkerTest : public TlsFixture {
 protected:
  // Job 1 runs on worker 1, which is honest; worker 2 lies.
  void SetUp() override {
    TlsFixture::SetUp();
    honest_ = As({Role::kWorker, "honest"});
    liar_ = As({Role::kWorker, "liar"});
    ASSERT_TRUE(honest_->Register("honest", 1, /*incarnation=*/1).ok());
    ASSERT_TRUE(As({Role::kUser, "ann"})->Submit(ClusterClient::AJob("job"), "a").ok());
    ASSERT_TRUE(liar_->Register("liar", 1, /*incarnation=*/2).ok());
  }
  // Output of job 1's rank 0, at some offset.
  grpc::Status Append(ClusterClient& client, uint64_t worker, uint64_t incarnation,
                      uint64_t offset = 0) {
    v1::AppendLogsRequest request;
    request.set_worker_id(worker);
    request.set_incarnation(incarnation);
    request.set_job(1);
    v1::LogChunk* chunk = request.add_chunks();
    chunk->set_generation(1);
    chunk->set_rank(0);
    chunk->set_stream(v1::LOG_STREAM_STDOUT);
    chunk->set_offset(offset);
    chunk->set_data("a line\n");
    return client.Call(client.logs(), &v1::Logs::Stub::Append, request).status;
  }
  static void ExpectDenied(const grpc::Status& status, const std::string& why) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }

  std::unique_ptr<ClusterClient> honest_, liar_;
};

TEST_F(LyingWorkerTest, ItCannotReportForAnotherWorker) {
  ExpectDenied(liar_->Report(1, 1, 0, v1::RANK_STATE_EXITED).status, "it is about worker honest");
  EXPECT_TRUE(honest_->Report(1, 1, 0, v1::RANK_STATE_STARTED).ok());
}

TEST_F(LyingWorkerTest, ItCannotReportRanksThatArePlacedElsewhere) {
  v1::ReportRankRequest request;
  request.set_worker_id(2);
  request.set_incarnation(2);
  request.set_job(1);
  request.set_generation(1);
  request.set_state(v1::RANK_STATE_STARTED);
  request.set_pid(1);
  const auto answer = liar_->Call(liar_->workers(), &v1::Workers::Stub::ReportRank, request);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("belongs to worker honest"));
}

TEST_F(LyingWorkerTest, ItCannotTakeAnothersName) {
  ExpectDenied(liar_->Register("honest", 1, /*incarnation=*/3).status, "about worker honest");
}

TEST_F(LyingWorkerTest, ItSeesNeitherAssignmentNorStoreOfOthers) {
  v1::WatchAssignmentRequest watch;
  watch.set_worker_id(1);
  watch.set_incarnation(1);
  ExpectDenied(liar_->Call(liar_->workers(), &v1::Workers::Stub::WatchAssignment, watch).status,
               "about worker honest");
  ExpectDenied(liar_->Set(1, "key", "value", 1).status, "no rank of job 1 is placed on it");
  EXPECT_TRUE(honest_->Set(1, "key", "value", 1).ok());
}

TEST_F(LyingWorkerTest, ItCannotForgeOutputOfOthers) {
  ExpectDenied(Append(*liar_, 1, 1), "about worker honest");
  ExpectDenied(Append(*liar_, 2, 2), "which is placed on honest");
  ExpectDenied(Append(*liar_, 2, 2, /*offset=*/1 << 20), "which is placed on honest");
  EXPECT_TRUE(Append(*honest_, 1, 1).ok());
}

TEST_F(LyingWorkerTest, AnEarlierLifeOfItIsNoLongerHeard) {
  EXPECT_EQ(Append(*honest_, 1, /*incarnation=*/9).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace dp::server
