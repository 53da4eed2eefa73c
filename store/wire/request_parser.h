#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/wire/protocol.h"

namespace dp::wire {

// The admitted clients, and the limits of their messages.
struct RequestOptions {
  Limits limits;
  // Clients before PyTorch 2.2 send no magic. Admitting them also admits stray bytes, up to the
  // first unknown code; false shuts both out.
  bool admit_without_handshake = true;
  // The dialect of clients without the magic: A, or B for clients known to be of PyTorch 2.1.
  // Clients taken for A count as B from their first code that only B has.
  Dialect without_handshake = Dialect::kA;
};

// Takes the requests of one connection from its bytes, which arrive in pieces of any size. The
// first one to five bytes determine the dialect; the handshake itself is no request. Pure; not
// thread-safe.
class RequestParser {
 public:
  explicit RequestParser(const RequestOptions& options)
      : options_(options), parser_(options.limits), dialect_(options.without_handshake) {}

  // The memory of the request being read, as in FieldParser.
  void Allow(size_t bytes) { parser_.Allow(bytes); }
  size_t announced() const { return parser_.announced(); }
  bool announces_all() const { return parser_.announces_all(); }
  bool starved() const { return parser_.starved(); }

  // Takes bytes from the front of `input`, never beyond a request. Returns whether `request` was
  // filled in. If not, all bytes have been taken, unless the request is starved.
  // Errors: InvalidArgument no such operation; ResourceExhausted a limit. The connection must then
  // be closed: the next request cannot be found.
  absl::StatusOr<bool> Next(absl::string_view* input, Request* request);

  Dialect dialect() const { return dialect_; }

 private:
  enum class State { kOpening, kMagic, kCode, kFields };

  absl::Status BeginOpening(absl::string_view* input);
  // Returns whether all four bytes have arrived.
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
