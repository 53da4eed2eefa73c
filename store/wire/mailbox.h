#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "store/async_store.h"
#include "store/wire/socket.h"

namespace dp::wire {

// The answer of a store to one request of one session.
struct Answer {
  uint64_t session = 0;
  uint64_t request = 0;
  AsyncStore::Results results;
};

// Brings a store's answers, given on any thread, to the one thread that owns the sessions, in the
// order in which they were sent. Answers given on the owner's thread take no lock and wake nobody.
// Thread-safe, except for methods marked Owner. The callbacks hold it, so it may outlive the
// server.
class Mailbox {
 public:
  // The calling thread is the owner until another adopts it. Errors: ResourceExhausted no
  // descriptor.
  static absl::StatusOr<std::shared_ptr<Mailbox>> Open();

  void Send(Answer answer) DP_EXCLUDES(mu_);
  // Wakes the owner.
  void Wake();

  // Owner: makes the calling thread the owner. Before any answer.
  void Adopt() { owner_ = std::this_thread::get_id(); }
  // Owner: gives up ownership; nobody takes later answers.
  void Abandon() { owner_ = std::thread::id(); }
  // Owner: readable when answers of other threads have come, or after Wake.
  int descriptor() const { return event_.get(); }
  // Owner: takes the answers given on the owner's thread. Later answers go into `spent`, which must
  // be empty: they then need no new memory.
  std::vector<Answer> TakeOwn(std::vector<Answer> spent = {});
  // Owner: takes the answers of other threads.
  std::vector<Answer> TakeOthers() DP_EXCLUDES(mu_);

 private:
  explicit Mailbox(FileDescriptor event) : event_(std::move(event)) {}

  const FileDescriptor event_;
  std::atomic<std::thread::id> owner_{std::this_thread::get_id()};
  std::vector<Answer> own_;  // the owner's thread alone
  Mutex mu_;
  std::vector<Answer> others_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::wire
