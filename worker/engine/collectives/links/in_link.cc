#include "worker/engine/collectives/links/in_link.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/status.h"

namespace dp::engine {
namespace {

template <typename T>
absl::Span<uint8_t> BytesOfPart(T& part) {
  return {reinterpret_cast<uint8_t*>(&part), sizeof part};
}

bool IsType(DataType type) { return type >= DataType::kFloat32 && type <= DataType::kUint8; }

bool HasText(const LinkFrame& frame) {
  return frame.kind == LinkFrame::Kind::kNote || frame.kind == LinkFrame::Kind::kVerdict ||
         frame.kind == LinkFrame::Kind::kLeft || frame.kind == LinkFrame::Kind::kFarewell ||
         frame.kind == LinkFrame::Kind::kCarrier;
}

}  // namespace

bool InLink::Read(const std::string& token, LinkListener& listener) {
  for (int call = 0; call < kLinkCallsPerTurn; ++call) {
    const absl::Span<uint8_t> wanted = Wanted();
    if (!wanted.empty()) {
      const ssize_t got = recv(socket_.get(), wanted.data(), wanted.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) return false;
      have_ += static_cast<size_t>(got);
      if (static_cast<size_t>(got) < wanted.size()) continue;
    }
    if (!PartIsComplete(token, listener).ok()) return false;
  }
  return true;
}

absl::Span<uint8_t> InLink::Wanted() {
  absl::Span<uint8_t> part = peer_ < 0 ? BytesOfPart(greeting_) : BytesOfPart(frame_);
  if (in_payload_) part = room_;
  return part.subspan(have_);
}

absl::Status InLink::PartIsComplete(const std::string& token, LinkListener& listener) {
  have_ = 0;
  if (peer_ < 0) return Greet(token, listener);
  if (in_payload_) {
    in_payload_ = false;
  } else {
    DP_RETURN_IF_ERROR(BeginFrame(listener));
    if (in_payload_) return absl::OkStatus();
  }
  return listener.Heard(peer_, frame_, text_);
}

absl::Status InLink::Greet(const std::string& token, LinkListener& listener) {
  if (!SameToken({greeting_.token, sizeof greeting_.token}, token))
    return absl::InternalError("the caller does not know the token");
  DP_RETURN_IF_ERROR(listener.Greeted(greeting_.rank));
  peer_ = greeting_.rank;
  return absl::OkStatus();
}

absl::Status InLink::BeginFrame(LinkListener& listener) {
  text_.clear();
  if (!IsType(frame_.type)) return absl::InternalError("no such type");
  if (frame_.kind == LinkFrame::Kind::kData) {
    DP_ASSIGN_OR_RETURN(room_, listener.RoomFor(peer_, frame_));
  } else if (HasText(frame_) && frame_.payload <= kLinkTextMax) {
    text_.resize(frame_.payload);
    room_ = {reinterpret_cast<uint8_t*>(text_.data()), text_.size()};
  } else if (frame_.payload != 0) {
    return absl::InternalError("a frame without payload has one");
  }
  in_payload_ = frame_.payload > 0;
  return absl::OkStatus();
}

}  // namespace dp::engine
