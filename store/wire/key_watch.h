#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/async_store.h"
#include "store/wire/message_memory.h"

namespace dp::wire {

// The keys that a client of dialect A watches, each with the value that the client was last sent.
// Changes in quick succession may be sent as one. The values count as memory of waits. Owned by a
// session; not thread-safe.
class KeyWatches {
 public:
  // Gives the callback for the next change of watch number `index`.
  using AnswerTo = std::function<AsyncStore::Done(size_t index)>;

  KeyWatches(AsyncStore& store, MessageMemory& memory, AnswerTo answer_to)
      : store_(store), memory_(memory), answer_to_(std::move(answer_to)) {}
  // Cancels all watches.
  ~KeyWatches();
  KeyWatches(const KeyWatches&) = delete;
  KeyWatches& operator=(const KeyWatches&) = delete;

  // Starts from the store's current answer for the key. Errors: ResourceExhausted too many watches,
  // or no room for the value.
  absl::Status Add(std::string key, const StoreResult& now);
  // Appends the notification of a change. Errors: ResourceExhausted no room for the new value.
  absl::Status OnChange(size_t index, const StoreResult& now, std::string* out);
  // Waits for the next change of each key whose last change was sent.
  void Resume();

 private:
  struct Watch {
    std::string key;
    bool present = false;
    std::string value;
    uint64_t version = 0;
    bool waiting = false;
    AsyncStore::Ticket wait;
  };

  // Takes or gives back memory as the held value changes.
  absl::Status HoldInstead(const std::string& before, const std::string& now);

  AsyncStore& store_;
  MessageMemory& memory_;
  const AnswerTo answer_to_;
  size_t taken_ = 0;
  std::vector<Watch> watches_;
  size_t idle_ = 0;  // watches that do not wait
};

}  // namespace dp::wire
