#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "worker/engine/collectives/links/link_frame.h"
#include "worker/engine/collectives/links/link_place.h"

namespace dp::engine {

// Takes what a peer says. An error ends the link on which it came.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  // The caller is rank `rank`. Errors: it cannot be.
  virtual absl::Status Greeted(int rank) = 0;
  // The room for the payload of a kData frame.
  virtual absl::StatusOr<absl::Span<uint8_t>> RoomFor(int peer, const LinkFrame& frame) = 0;
  // A frame is complete, with the text that is its payload; that of kData is in its room.
  virtual absl::Status Heard(int peer, const LinkFrame& frame, const std::string& text) = 0;
};

// The connection on which one peer speaks to this rank. Used by one thread.
class InLink {
 public:
  explicit InLink(FileDescriptor socket) : socket_(std::move(socket)) {}

  // -1 until the caller has greeted.
  int peer() const { return peer_; }
  int socket() const { return socket_.get(); }
  // Reads what has arrived. `token` is this rank's. Returns false when the link has ended.
  bool Read(const std::string& token, LinkListener& listener);
  // Ends the link on this side. Nothing more is read.
  void Cut() { socket_.Close(); }
  // Whether a payload is arriving in memory that others own.
  bool filling() const { return in_payload_ && frame_.kind == LinkFrame::Kind::kData; }

 private:
  // The bytes of the next part, as far as they are missing.
  absl::Span<uint8_t> Wanted();
  absl::Status PartIsComplete(const std::string& token, LinkListener& listener);
  absl::Status Greet(const std::string& token, LinkListener& listener);
  absl::Status BeginFrame(LinkListener& listener);

  FileDescriptor socket_;
  int peer_ = -1;
  LinkGreeting greeting_;
  LinkFrame frame_;
  bool in_payload_ = false;
  std::string text_;
  absl::Span<uint8_t> room_;  // of the payload
  size_t have_ = 0;           // bytes of the running part
};

}  // namespace dp::engine
