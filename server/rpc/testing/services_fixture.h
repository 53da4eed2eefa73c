#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"
#include "server/driver/testing/memory_journal.h"
#include "server/rpc/server.h"
#include "server/rpc/testing/await_parked.h"
#include "server/rpc/testing/cluster_client.h"

namespace dp::server {

// A coordinator with all its services behind a real channel, and a client of it, in one process.
class ServicesFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.lease = absl::Minutes(10);
    auto driver = Driver::Start(options_, journal_, Clock::System(), [](const absl::Status&) {});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    logs_ = std::make_unique<LogThread>(LogStore(scratch_.path()), [](const absl::Status&) {});
    parameters_ = std::make_unique<Parameters>(scratch_.path() / "parameters");
    server_options_.parameters = parameters_.get();
    auto server = Server::Start({"127.0.0.1", 0}, *driver_, *logs_, server_options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<ClusterClient>(server_->address().ToString());
  }
  void TearDown() override {
    driver_->Stop();
    logs_->Stop();
    parameters_->tables.Stop();
    server_->Stop();
  }
  // A job of `ranks` ranks, all placed on one worker; returns its id.
  uint64_t PlacedJob(int ranks = 1) {
    worker_ = client_->Register("w", ranks)->worker_id();
    return client_->Submit(ClusterClient::AJob("job", ranks), "request")->job().id();
  }
  void FinishJob(uint64_t job) {
    client_->Report(worker_, job, 0, v1::RANK_STATE_STARTED);
    client_->Report(worker_, job, 0, v1::RANK_STATE_EXITED);
    client_->Report(worker_, job, 0, v1::RANK_STATE_RELEASED);
  }
  // Returns once so many calls are parked with the driver.
  void AwaitParked(size_t calls) { server::AwaitParked(*driver_, calls); }
  Answered<v1::WatchJobResponse> WatchJob(uint64_t job, uint64_t since, int seconds) {
    v1::WatchJobRequest request;
    request.set_job(job);
    request.set_since(since);
    request.mutable_timeout()->set_seconds(seconds);
    return client_->Call(client_->jobs(), &v1::Jobs::Stub::Watch, request);
  }

  Driver::Options options_;  // a test's constructor may change them
  ServerOptions server_options_;
  const ScratchDir scratch_;
  MemoryJournal journal_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<LogThread> logs_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ClusterClient> client_;
  uint64_t worker_ = 0;
};

}  // namespace dp::server
