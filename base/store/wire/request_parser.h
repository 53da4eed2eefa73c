#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/wire/protocol.h"

namespace dp::wire {

// Which clients are let in, and what they may send.
struct RequestOptions {
  Limits limits;
  // Clients before PyTorch 2.2 send no magic, which lets any stray bytes in up to the first unknown
  // code: false shuts both out.
  bool admit_without_handshake = true;
  // What such a client speaks: A, or B where the clients are known to be of PyTorch 2.1. One taken
  // for A that sends a code only B has is B from there on.
  Dialect without_handshake = Dialect::kA;
};

// Takes the requests of one connection from its bytes, which come in pieces of any size. The first
// one to five bytes tell the dialect; the handshake itself is no request. Pure; not thread-safe.
class RequestParser {
 public:
  explicit RequestParser(const RequestOptions& options)
      : options_(options), parser_(options.limits), dialect_(options.without_handshake) {}

  // How much memory the request may take that is being read, as in FieldParser.
  void Allow(size_t bytes) { parser_.Allow(bytes); }
  size_t announced() const { return parser_.announced(); }
  bool announces_all() const { return parser_.announces_all(); }
  bool starved() const { return parser_.starved(); }

  // Takes bytes from the front of `input`, never beyond a request. Returns whether `request` has
  // been filled; if not, all bytes have been taken, unless the request is starved.
  // Errors: InvalidArgument no such operation; ResourceExhausted a limit. The connection is then to
  // be closed: there is no way to find the next request.
  absl::StatusOr<bool> Next(absl::string_view* input, Request* request);

  Dialect dialect() const { return dialect_; }

 private:
  enum class State { kOpening, kMagic, kCode, kFields };

  absl::Status BeginOpening(absl::string_view* input);
  // Returns whether the four bytes are here.
  absl::StatusOr<bool> TakeMagic(absl::string_view* input);
  absl::Status BeginRequest(uint8_t code);
  absl::StatusOr<bool> TakeFields(absl::string_view* input, Request* request);

  const RequestOptions options_;
  FieldParser parser_;
  Dialect dialect_;
  State state_ = State::kOpening;
  Verb verb_ = Verb::kSet;
};

}  // namespace dp::wire
