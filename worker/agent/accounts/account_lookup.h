#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/bounded_queue.h"
#include "worker/agent/accounts/account.h"

namespace dp::worker {

// Looks accounts up on a thread of its own, one after the other, because a user database may block
// for minutes. The destructor waits for a look-up in flight.
class AccountLookup {
 public:
  using Find = std::function<absl::StatusOr<Account>(const std::string& name)>;
  // Called on the thread, once for each question.
  using Found = std::function<void(const std::string& name, absl::StatusOr<Account> account)>;

  AccountLookup(Find find, Found found);
  ~AccountLookup();

  // Returns at once. Any thread. The asker has one question for a name in flight, so names of
  // ranks that wait for a slot bound the questions.
  void Ask(const std::string& name);

 private:
  // As many as a host has slots at most (kSlotsMax), with room to spare; more is a bug.
  static constexpr size_t kQuestionsMax = 8192;

  void Loop();

  const Find find_;
  const Found found_;
  BoundedQueue<std::string> questions_{kQuestionsMax};
  std::jthread thread_;
};

}  // namespace dp::worker
