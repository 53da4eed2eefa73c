#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "store/async_hash_store.h"
#include "store/wire/fields.h"
#include "store/wire/session.h"

namespace dp::wire {

// A store that applies calls in order at once, but answers only on demand.
class SlowStore : public AsyncStore {
 public:
  void Execute(std::vector<StoreOperation> operations, Done done) override {
    store_.Execute(std::move(operations), Later(std::move(done)));
  }
  Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string&) override {
    return store_.Await(std::move(reads), Later(std::move(done)));
  }
  void Cancel(Ticket ticket) override { store_.Cancel(ticket); }

  // Answers the newest first: no session may rely on an order.
  void AnswerBackwards() {
    for (; !answers_.empty(); answers_.pop_back()) std::move(answers_.back())();
  }
  size_t waiting() const { return store_.waiting(); }
  size_t unanswered() const { return answers_.size(); }

 private:
  Done Later(Done done) {
    return [this, done = std::move(done)](Results results) mutable {
      answers_.push_back([done = std::move(done), results = std::move(results)]() mutable {
        std::move(done)(std::move(results));
      });
    };
  }

  AsyncHashStore store_;
  std::vector<absl::AnyInvocable<void() &&>> answers_;
};

// One client's end of a session, without a socket.
class Peer {
 public:
  Peer(AsyncStore& store, Dialect dialect, const RequestOptions& options = {})
      : Peer(store, dialect, options, own_memory_) {}
  Peer(AsyncStore& store, Dialect dialect, const RequestOptions& options, MessageMemory& memory)
      : dialect_(dialect), session_(1, store, options, mailbox_, memory) {
    if (dialect == Dialect::kC) status_ = session_.Consume(std::string("\0\xce\xf7\x85\x3c", 5));
  }

  void Ask(Verb verb, std::vector<std::string> strings = {}, int64_t number = 0) {
    std::string bytes;
    AppendRequest(dialect_, {verb, {std::move(strings), number}}, &bytes);
    Say(bytes);
  }
  void Say(absl::string_view bytes) {
    if (status_.ok()) status_ = session_.Consume(bytes);
    Deliver();
  }
  // Only while the session is runnable.
  void GoOn() {
    if (status_.ok()) status_ = session_.Continue();
    Deliver();
  }
  void Deliver() {
    for (auto answers = mailbox_->TakeOwn(); !answers.empty(); answers = mailbox_->TakeOwn())
      for (Answer& answer : answers)
        if (status_.ok()) status_ = session_.OnAnswer(answer.request, std::move(answer.results));
  }
  // The bytes that have come since the last call.
  std::string Heard() {
    Deliver();
    const std::string heard(session_.pending());
    session_.OnSent(heard.size());
    Deliver();
    return heard;
  }
  // The reply to `verb`, which must be all that has come.
  Fields Reply(Verb verb, uint64_t count = 0) {
    FieldParser parser(Limits{});
    parser.Begin(ReplyShape(verb), count);
    const std::string heard = Heard();
    absl::string_view input = heard;
    EXPECT_TRUE(*parser.Take(&input)) << NameOf(verb) << " got " << heard.size() << " bytes";
    EXPECT_EQ(input, "");
    return parser.Finish();
  }

  Session& session() { return session_; }
  const absl::Status& status() const { return status_; }

 private:
  const Dialect dialect_;
  MessageMemory own_memory_{size_t{256} << 20};
  std::shared_ptr<Mailbox> mailbox_ = *Mailbox::Open();
  Session session_;
  absl::Status status_;
};

}  // namespace dp::wire
