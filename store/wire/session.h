#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/async_store.h"
#include "store/wire/key_watch.h"
#include "store/wire/mailbox.h"
#include "store/wire/message_memory.h"
#include "store/wire/request_parser.h"

namespace dp::wire {

// One client's connection without its socket. Bytes come in, requests go to the store, and answers
// come back through the mailbox. Replies go out in the order of the requests.
//
// Everything in a session is bounded. With too much unanswered or unsent it is full, and takes no
// more bytes. It also takes none while it is starved, that is until it has memory for what the
// request being read announces.
//
// Owned by the server, or by a test; not thread-safe. After any error the connection must be
// closed, once pending() has been sent.
class Session {
 public:
  // `peer` is the client's end of the connection, shown to whoever asks who waits.
  Session(uint64_t id, AsyncStore& store, const RequestOptions& options,
          std::shared_ptr<Mailbox> mailbox, MessageMemory& memory, std::string peer = "");
  // Cancels its waits, and gives back its memory.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Takes bytes that the client sent. Only while readable().
  // Errors: InvalidArgument, ResourceExhausted as RequestParser; ResourceExhausted also no room for
  // a wait.
  absl::Status Consume(absl::string_view bytes);
  // Continues with bytes that were held back. Only while runnable(). Errors: as Consume.
  absl::Status Continue();
  // Errors: those of the store; the protocol cannot send them to the client.
  absl::Status OnAnswer(uint64_t request, AsyncStore::Results results);
  // `bytes` of pending() have been sent.
  void OnSent(size_t bytes);

  // The bytes to send to the client. Valid until the next call.
  absl::string_view pending() const { return absl::string_view(output_).substr(sent_); }
  // Whether the session can take bytes.
  bool readable() const { return held_.empty() && !starved() && !full(); }
  // Whether the session holds bytes back and can continue with them.
  bool runnable() const { return !held_.empty() && !starved() && !full(); }
  // The number of the request being read, if it holds memory of the budget and only its client
  // delays it; else 0.
  uint64_t unfinished() const { return begun() && !starved() ? requests_ + 1 : 0; }
  Dialect dialect() const { return parser_.dialect(); }

 private:
  // A request that is not answered yet, or whose reply waits for earlier replies.
  struct Open {
    Verb verb = Verb::kSet;
    bool answered = false;
    bool value = false;                  // its reply may be as long as a value
    AsyncStore::Ticket wait;             // of a wait or barrier
    size_t bytes = 0;                    // that its strings take
    bool waits = false;                  // `bytes` count as memory of waits
    std::vector<std::string> keys_left;  // of a multi_get, the last one first; of a watch_key
    size_t keys_next = 0;                // of a multi_get: how many keys its next part has
    bool running = false;                // of a multi_get: the store has a part
    std::vector<std::string> part;       // the part's keys, the first one first
    std::string reply;
  };

  // Each connection may hold this much beside the budget. The short messages by which ranks find
  // each other therefore never wait for memory.
  static constexpr size_t kFreeBytes = size_t{4} << 10;

  bool full() const;
  // Takes requests from the front of `bytes`, as far as allowed.
  absl::Status Take(absl::string_view* bytes);
  bool starved() const { return claim_ != 0; }
  // Whether the request being read holds memory of the budget.
  bool begun() const { return admitted_ > kFreeBytes; }
  // Lets the parser take what it has announced, or claims the memory for that. Returns whether the
  // parser may continue.
  bool Admit();
  void OnMemory(size_t bytes);
  // The part of `bytes` that counts against the budget.
  static size_t Charged(size_t bytes);
  // Gives back the memory that the session no longer holds.
  void Balance();
  // Errors: ResourceExhausted no room for a wait.
  absl::Status Run(Request request);
  // Each opens a request and starts it.
  void RunAtOnce(Verb verb, Fields fields);
  absl::Status RunWait(std::vector<std::string> keys);
  absl::Status RunBarrier(const std::string& key, int64_t world_size);
  void RunMultiGet(std::vector<std::string> keys);
  void RunPart(uint64_t id);

  absl::Status OnResults(Open& open, std::vector<StoreResult> results);
  void OnPart(Open& open, size_t bytes);
  // The answer to a part would have been too long: retries with half of its keys.
  void HalvePart(Open& open);
  absl::Status OnChange(size_t watch, const StoreResult& now);
  // Cancels the open waits and barriers, which get no reply.
  void DropWaits();

  // Counts the strings of a wait. Errors: ResourceExhausted no room for them.
  absl::Status HoldForWait(Open& open, const std::vector<std::string>& strings);
  // Gives back the memory of a request's strings.
  void Release(Open& open);

  Open& Begin(Verb verb);
  uint64_t last_id() const { return first_id_ + open_.size() - 1; }
  Open* Find(uint64_t id);
  AsyncStore::Done AnswerTo(uint64_t id) const;
  // As AnswerTo, but delivers only errors.
  AsyncStore::Done ErrorTo(uint64_t id) const;
  void Finish(Open& open);
  // Moves the next replies to the output; then continues a multi_get that waited for room there.
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
  uint64_t requests_ = 0;            // complete ones
  size_t admitted_ = 0;              // bytes that the request being read may take
  size_t taken_ = 0;                 // of memory_
  size_t taken_for_waits_ = 0;       // of memory_
  MessageMemory::Claim asked_;       // by claim_
  MessageMemory::Ticket claim_ = 0;  // while it is starved
  std::string held_;                 // bytes not parsed yet, from held_at_ on
  size_t held_at_ = 0;
  std::deque<Open> open_;
  uint64_t first_id_ = 1;     // of open_[0]
  size_t bytes_running_ = 0;  // of all open requests except waits
  size_t bytes_waiting_ = 0;  // of waits
  size_t values_open_ = 0;    // unanswered requests whose replies may be long
  std::string output_;
  size_t sent_ = 0;  // of output_
  KeyWatches watches_;
};

}  // namespace dp::wire
