#include "worker/engine/collectives/links/out_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dp::engine {
namespace {

template <typename T>
std::string BytesOfValue(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

void OutLink::Open(const LinkPlace& place, int rank) {
  if (open() || ended_) return;
  absl::StatusOr<FileDescriptor> begun = BeginLink(place.address);
  if (!begun.ok()) return End();
  socket_ = *std::move(begun);
  LinkGreeting greeting{.rank = rank};
  std::memcpy(greeting.token, place.token.data(),
              std::min(place.token.size(), sizeof greeting.token));
  pieces_.push_front({.own = BytesOfValue(greeting)});
}

void OutLink::Queue(const LinkFrame& frame, absl::Span<const uint8_t> payload, uint64_t message) {
  pieces_.push_back({.own = BytesOfValue(frame), .payload = payload, .message = message});
}

void OutLink::QueueText(LinkFrame frame, std::string text) {
  frame.payload = text.size();
  pieces_.push_back({.own = BytesOfValue(frame) + text});
}

void OutLink::Write(std::vector<uint64_t>* written) {
  for (int call = 0; call < kLinkCallsPerTurn && open() && !pieces_.empty(); ++call) {
    Piece& piece = pieces_.front();
    iovec parts[2] = {{piece.own.data(), piece.own.size()},
                      {const_cast<uint8_t*>(piece.payload.data()), piece.payload.size()}};
    const size_t of_own = std::min(piece.left, piece.own.size());
    parts[0] = {piece.own.data() + of_own, piece.own.size() - of_own};
    const size_t of_payload = piece.left - of_own;
    parts[1] = {const_cast<uint8_t*>(piece.payload.data()) + of_payload,
                piece.payload.size() - of_payload};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) return;  // not connected yet
    if (sent < 0) return End();
    piece.left += static_cast<size_t>(sent);
    if (piece.left < piece.own.size() + piece.payload.size()) continue;
    if (piece.message != 0) written->push_back(piece.message);
    pieces_.pop_front();
  }
}

void OutLink::Drop() {
  const bool cut = !pieces_.empty() && pieces_.front().left > 0 && pieces_.front().message != 0;
  if (cut) return End();
  std::erase_if(pieces_, [](const Piece& piece) { return piece.message != 0; });
}

void OutLink::End() {
  socket_.Close();
  pieces_.clear();
  ended_ = true;
}

}  // namespace dp::engine
