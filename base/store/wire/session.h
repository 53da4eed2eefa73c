#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/store/async_store.h"
#include "base/store/wire/key_watch.h"
#include "base/store/wire/mailbox.h"
#include "base/store/wire/message_memory.h"
#include "base/store/wire/request_parser.h"

namespace dp::wire {

// One client's connection without its socket: bytes come in, requests go to the store, answers come
// back through the mailbox, and replies go out in the order of the requests. Everything in it is
// bounded: when too much is unanswered or unsent it is full, and takes no more bytes. A request is
// read on only once it has memory for what it announces; until then the session is starved, and
// takes no more bytes either.
//
// Owned by the server, or by a test; not thread-safe. On any error the connection is to be closed,
// after what is in pending() has been sent.
class Session {
 public:
  // `peer` is the client's end of the connection, for who asks who waits.
  Session(uint64_t id, AsyncStore& store, const RequestOptions& options,
          std::shared_ptr<Mailbox> mailbox, MessageMemory& memory, std::string peer = "");
  // Gives up all it waits for, and its memory.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Takes bytes that the client sent. Only while readable().
  // Errors: InvalidArgument, ResourceExhausted what RequestParser says.
  absl::Status Consume(absl::string_view bytes);
  // Goes on with bytes that were held back. Only while runnable(). Errors: as Consume.
  absl::Status Continue();
  // Errors: those of the store; the protocol cannot tell them to the client.
  absl::Status OnAnswer(uint64_t request, AsyncStore::Results results);
  // `bytes` of pending() are on their way.
  void OnSent(size_t bytes);

  // What the client is to get. Valid until the next call.
  absl::string_view pending() const { return absl::string_view(output_).substr(sent_); }
  // It can take bytes.
  bool readable() const { return held_.empty() && !starved() && !full(); }
  // It holds bytes back and can go on with them.
  bool runnable() const { return !held_.empty() && !starved() && !full(); }
  // The number of the request that is being read, where it has memory of the budget and its client
  // alone delays it; else 0.
  uint64_t unfinished() const { return begun() && !starved() ? requests_ + 1 : 0; }
  Dialect dialect() const { return parser_.dialect(); }

 private:
  // A request that is not answered yet, or whose reply waits for those before it.
  struct Open {
    Verb verb = Verb::kSet;
    bool answered = false;
    bool value = false;                  // its reply may be as long as a value
    AsyncStore::Ticket wait;             // of a wait or barrier
    size_t bytes = 0;                    // that it holds in the store's hands
    bool waits = false;                  // they count as those of waits
    std::vector<std::string> keys_left;  // of a multi_get, the last one first; of a watch_key
    size_t keys_next = 0;                // of a multi_get: how many its next part has
    bool running = false;                // of a multi_get: a part is in the store's hands
    std::vector<std::string> part;       // its keys, the first one first
    std::string reply;
  };

  // Each connection may hold this much beside the budget. The short messages with which ranks find
  // each other therefore never wait for memory.
  static constexpr size_t kFreeBytes = size_t{4} << 10;

  bool full() const;
  // Takes requests from the front of `bytes`, as far as it may.
  absl::Status Take(absl::string_view* bytes);
  bool starved() const { return claim_ != 0; }
  // The request that is being read holds memory of the budget.
  bool begun() const { return admitted_ > kFreeBytes; }
  // Lets the parser go on with what it announces, or waits for the memory to do so. Returns whether
  // it may go on.
  bool Admit();
  void OnMemory(size_t bytes);
  // The part of `bytes` that counts against the budget.
  static size_t Charged(size_t bytes);
  // Gives back the memory that the session no longer holds.
  void Balance();
  // Errors: ResourceExhausted there is no room for a wait.
  absl::Status Run(Request request);
  // Each starts the request last opened.
  void RunAtOnce(Verb verb, Fields fields);
  absl::Status RunWait(std::vector<std::string> keys);
  absl::Status RunBarrier(const std::string& key, int64_t world_size);
  void RunMultiGet(std::vector<std::string> keys);
  void RunPart(uint64_t id);

  absl::Status OnResults(Open& open, std::vector<StoreResult> results);
  void OnPart(Open& open, size_t bytes);
  // The answer to a part would have been too long: asks for half of its keys.
  void HalvePart(Open& open);
  absl::Status OnChange(size_t watch, const StoreResult& now);
  // Ends the waits and barriers; they are not answered.
  void DropWaits();

  // Counts the strings of a wait. Errors: ResourceExhausted there is no room for them.
  absl::Status HoldForWait(Open& open, const std::vector<std::string>& strings);
  // Gives back what the strings of a request took.
  void Release(Open& open);

  Open& Begin(Verb verb);
  uint64_t last_id() const { return first_id_ + open_.size() - 1; }
  Open* Find(uint64_t id);
  AsyncStore::Done AnswerTo(uint64_t id) const;
  // Only an error is of interest.
  AsyncStore::Done ErrorTo(uint64_t id) const;
  void Finish(Open& open);
  // Moves the replies that are next to the output; goes on with what waited for room in it.
  void Flush();
  size_t unsent() const { return output_.size() - sent_; }
  // Bytes of replies that wait for earlier replies.
  size_t unflushed() const;

  const uint64_t id_;
  AsyncStore& store_;
  const size_t bytes_max_;
  const std::shared_ptr<Mailbox> mailbox_;
  MessageMemory& memory_;
  const std::string peer_;
  RequestParser parser_;
  uint64_t requests_ = 0;            // that were complete
  size_t admitted_ = 0;              // bytes that the request being read may have
  size_t taken_ = 0;                 // of memory_
  size_t taken_for_waits_ = 0;       // of memory_
  MessageMemory::Claim asked_;       // by claim_
  MessageMemory::Ticket claim_ = 0;  // while it is starved
  std::string held_;                 // bytes not looked at yet, from held_at_ on
  size_t held_at_ = 0;
  std::deque<Open> open_;
  uint64_t first_id_ = 1;     // of open_[0]
  size_t bytes_running_ = 0;  // of all that are open but waits
  size_t bytes_waiting_ = 0;  // of waits
  size_t values_open_ = 0;    // requests in the store's hands whose replies may be long
  std::string output_;
  size_t sent_ = 0;  // of output_
  KeyWatches watches_;
};

}  // namespace dp::wire
