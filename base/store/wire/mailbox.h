#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/store/async_store.h"
#include "base/store/wire/socket.h"

namespace dp::wire {

// The answer of a store to one request of one session.
struct Answer {
  uint64_t session = 0;
  uint64_t request = 0;
  AsyncStore::Results results;
};

// Brings a store's answers, which are given on any thread, to the one thread that owns the
// sessions, in the order in which they were sent. Answers given on that very thread take no lock
// and wake nobody. Thread-safe but for what only the owner calls. Outlives the server with the
// callbacks that hold it.
class Mailbox {
 public:
  // The owner is this thread until another adopts it. Errors: ResourceExhausted no descriptor.
  static absl::StatusOr<std::shared_ptr<Mailbox>> Open();

  void Send(Answer answer) DP_EXCLUDES(mu_);
  // Wakes the owner.
  void Wake();

  // Owner: makes the calling thread the owner. Before any answer.
  void Adopt() { owner_ = std::this_thread::get_id(); }
  // Owner: what comes from here on goes nowhere.
  void Abandon() { owner_ = std::thread::id(); }
  // Owner: readable when answers of other threads are there, or Wake was called.
  int descriptor() const { return event_.get(); }
  // Owner: takes what was given on the owner's thread. What comes next goes into `spent`, which
  // is empty: an answer then costs no memory of its own.
  std::vector<Answer> TakeOwn(std::vector<Answer> spent = {});
  // Owner: takes what other threads sent.
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
