// Three clients of one store send arbitrary bytes, in pieces and in turns. No client may make the
// server keep more than its limits allow, or leave a wait behind.
//
// The input is a sequence of pieces: a byte for the client (with a flag to leave), the length, the
// bytes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "store/async_hash_store.h"
#include "store/wire/message_memory.h"
#include "store/wire/session.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::server {
namespace {

using namespace dp::wire;

constexpr size_t kClients = 3;
constexpr uint8_t kGo = 0x80;
constexpr uint8_t kDeaf = 0x40;  // does not read what is sent to it

class Room {
 public:
  void Hear(uint8_t who, absl::string_view bytes) {
    std::unique_ptr<Session>& session = sessions_[who % kClients];
    if ((who & kGo) != 0) session.reset();
    if (session == nullptr) {
      ids_[who % kClients] = ++last_id_;
      session = std::make_unique<Session>(last_id_, store_, options_, mailbox_, memory_);
    }
    // A server does not read from a session that is not readable: the bytes stay in the network.
    if (session->readable() && !session->Consume(bytes).ok()) session.reset();
    Deliver();
    if (session != nullptr && (who & kDeaf) == 0 && !Send(*session)) session.reset();
    Deliver();
  }

  void End() {
    for (auto& session : sessions_) session.reset();
    DP_CHECK(store_.waiting() == 0);
    DP_CHECK(memory_.taken() == 0);
  }

 private:
  void Deliver() {
    for (auto answers = mailbox_->TakeOwn(); !answers.empty(); answers = mailbox_->TakeOwn())
      for (Answer& answer : answers) Give(std::move(answer));
  }
  void Give(Answer answer) {
    for (size_t i = 0; i < kClients; ++i) {
      if (sessions_[i] == nullptr || ids_[i] != answer.session) continue;
      if (!sessions_[i]->OnAnswer(answer.request, std::move(answer.results)).ok())
        sessions_[i].reset();
      return;
    }
  }
  // Returns whether the client may stay.
  static bool Send(Session& session) {
    while (!session.pending().empty()) {
      DP_CHECK(session.pending().size() < size_t{4} << 20);
      session.OnSent(std::min<size_t>(session.pending().size(), 4096));
    }
    return !session.runnable() || session.Continue().ok();
  }

  const RequestOptions options_{
      .limits = {.key_bytes = 64, .value_bytes = 4096, .keys = 64, .message_bytes = 16384}};
  AsyncHashStore store_{{.keys = 1000, .total_bytes = size_t{1} << 20}};
  std::shared_ptr<Mailbox> mailbox_ = *Mailbox::Open();
  MessageMemory memory_{size_t{1} << 20};
  std::array<std::unique_ptr<Session>, kClients> sessions_;
  std::array<uint64_t, kClients> ids_ = {};
  uint64_t last_id_ = 0;
};

}  // namespace

void Run(absl::string_view input) {
  Room room;
  ForEachPiece(input, [&](uint8_t who, absl::string_view bytes) { room.Hear(who, bytes); });
  room.End();
}

std::vector<std::string> Seeds() { return InPieces(WireSeeds()); }

}  // namespace dp::fuzz::server
