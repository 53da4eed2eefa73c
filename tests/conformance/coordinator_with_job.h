#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "server/driver/testing/memory_journal.h"
#include "server/rpc/server.h"
#include "server/rpc/testing/cluster_client.h"

namespace dp {

// A coordinator in this process, with one placed job.
class CoordinatorWithJob {
 public:
  CoordinatorWithJob() {
    auto driver = server::Driver::Start({.lease = absl::Hours(1)}, journal_, Clock::System(),
                                        [](const absl::Status&) {});
    DP_CHECK(driver.ok());
    driver_ = *std::move(driver);
    auto server =
        server::Server::Start({"127.0.0.1", 0}, *driver_, logs_, {.parameters = &parameters_});
    DP_CHECK(server.ok());
    server_ = *std::move(server);
    server::ClusterClient client(address());
    DP_CHECK(client.Register("w", /*slots=*/1).ok());
    const auto submitted = client.Submit(server::ClusterClient::AJob("job"), "request");
    DP_CHECK(submitted.ok());
    job_ = JobId(submitted->job().id());
  }
  ~CoordinatorWithJob() {
    driver_->Stop();
    logs_.Stop();
    parameters_.tables.Stop();
    server_->Stop();
  }

  std::string address() const { return server_->address().ToString(); }
  JobId job() const { return job_; }
  // The number of waits of all kinds; each parked call and each stream is one.
  size_t parked() const {
    std::promise<size_t> parked;
    DP_CHECK(driver_
                 ->Ask([&parked](const absl::Status&, const server::View& view) {
                   parked.set_value(view.waiters.size());
                 })
                 .ok());
    return parked.get_future().get();
  }
  std::vector<std::string> waiting() const {
    std::promise<std::vector<std::string>> waiting;
    DP_CHECK(driver_
                 ->Ask([this, &waiting](const absl::Status&, const server::View& view) {
                   std::vector<std::string> who;
                   for (const auto* call : view.waiters.blocked(job_)) who.push_back(call->who);
                   waiting.set_value(std::move(who));
                 })
                 .ok());
    return waiting.get_future().get();
  }

 private:
  const ScratchDir scratch_;
  server::MemoryJournal journal_;
  server::LogThread logs_{server::LogStore(scratch_.path() / "logs"), [](const absl::Status&) {}};
  server::Parameters parameters_{scratch_.path() / "parameters"};
  std::unique_ptr<server::Driver> driver_;
  std::unique_ptr<server::Server> server_;
  JobId job_;
};

}  // namespace dp
