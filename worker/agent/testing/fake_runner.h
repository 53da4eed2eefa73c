#pragma once

#include <string>
#include <vector>

#include "base/bounded_queue.h"
#include "worker/agent/mailbox.h"
#include "worker/agent/processes/process_runner.h"

namespace dp::worker {

// Runs nothing; the test reports the fate of each rank. Only a kill takes effect by itself.
class FakeRunner final : public ProcessRunner {
 public:
  explicit FakeRunner(Mailbox& mailbox) : mailbox_(mailbox) {}

  // The next order, in words: "start 0", "terminate 0", "kill 0". "timeout" if nothing comes.
  std::string NextOrder();
  // The command of the last start. Call it after NextOrder has returned "start".
  const RankCommand& command() const { return command_; }

  void Tell(int rank, decltype(ProcessNews::what) what);

  void Start(const RankKey& key, RankCommand command) override;
  void Terminate(const RankKey& key) override;
  void Kill(const RankKey& key) override;

 private:
  void Record(const std::string& verb, const RankKey& key);

  Mailbox& mailbox_;
  BoundedQueue<std::string> orders_{100};
  std::vector<std::string> unread_;  // the test's thread only
  RankCommand command_;              // passed between threads by `orders_`
};

}  // namespace dp::worker
