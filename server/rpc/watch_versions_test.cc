#include "gtest/gtest.h"
#include "server/rpc/testing/services_fixture.h"

// A watch waits only if its caller's version is the present one. After a start on an older copy of
// the data directory, callers have versions that are lost.

namespace dp::server {
namespace {

constexpr uint64_t kLost = uint64_t{1} << 60;  // above every version of these tests

// A call that waited would exceed its deadline.
template <typename Request>
Request Since(uint64_t version) {
  Request request;
  request.set_since(version);
  request.mutable_timeout()->set_seconds(60);
  return request;
}

class WatchVersionsTest : public ServicesFixture {
 protected:
  void SetUp() override {
    ServicesFixture::SetUp();
    job_ = PlacedJob();
  }

  uint64_t job_ = 0;
};

TEST_F(WatchVersionsTest, AJobIsToldToWhoHasALostVersion) {
  auto request = Since<v1::WatchJobRequest>(kLost);
  request.set_job(job_);
  const auto answer = client_->Call(client_->jobs(), &v1::Jobs::Stub::Watch, request);
  EXPECT_EQ(answer->job().id(), job_) << answer.status.error_message();
}

TEST_F(WatchVersionsTest, AnAssignmentIsToldToWhoHasALostVersion) {
  auto request = Since<v1::WatchAssignmentRequest>(kLost);
  request.set_worker_id(worker_);
  request.set_incarnation(1);
  const auto answer =
      client_->Call(client_->workers(), &v1::Workers::Stub::WatchAssignment, request);
  EXPECT_EQ(answer->assignment().ranks_size(), 1) << answer.status.error_message();
}

TEST_F(WatchVersionsTest, TheWorkersAreToldToWhoHasALostVersion) {
  const auto answer = client_->Call(client_->workers(), &v1::Workers::Stub::Watch,
                                    Since<v1::WatchWorkersRequest>(kLost));
  EXPECT_EQ(answer->workers_size(), 1) << answer.status.error_message();
}

TEST_F(WatchVersionsTest, AWorldIsToldToARankThatHasALostVersion) {
  ASSERT_TRUE(client_->Join(job_, 0).ok());
  auto request = Since<v1::WatchWorldRequest>(kLost);
  request.set_job(job_);
  request.set_generation(1);
  const auto answer = client_->Call(client_->worlds(), &v1::Worlds::Stub::Watch, request);
  EXPECT_EQ(answer->world().state(), v1::WORLD_STATE_SEALED) << answer.status.error_message();
}

}  // namespace
}  // namespace dp::server
