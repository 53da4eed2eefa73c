#include "store/wire/request_parser.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::wire {
namespace {

uint8_t TakeByte(absl::string_view* input) {
  const auto byte = static_cast<uint8_t>(input->front());
  input->remove_prefix(1);
  return byte;
}

absl::Status NoHandshake() {
  return absl::InvalidArgumentError(
      "connection opens without the handshake of PyTorch 2.2, and older clients are not admitted");
}

}  // namespace

absl::StatusOr<bool> RequestParser::Next(absl::string_view* input, Request* request) {
  while (!input->empty() || state_ == State::kFields) {
    switch (state_) {
      case State::kOpening:
        DP_RETURN_IF_ERROR(BeginOpening(input));
        break;
      case State::kMagic: {
        DP_ASSIGN_OR_RETURN(const bool complete, TakeMagic(input));
        if (!complete) return false;
        break;
      }
      case State::kCode:
        DP_RETURN_IF_ERROR(BeginRequest(TakeByte(input)));
        break;
      case State::kFields:
        return TakeFields(input, request);
    }
  }
  return false;
}

absl::Status RequestParser::BeginOpening(absl::string_view* input) {
  const uint8_t code = TakeByte(input);
  if (code == CodeOf(Verb::kValidate, Dialect::kC)) {
    state_ = State::kMagic;
    parser_.Begin(RequestShape(Verb::kValidate));
    return absl::OkStatus();
  }
  if (!options_.admit_without_handshake) return NoHandshake();
  return BeginRequest(code);
}

absl::StatusOr<bool> RequestParser::TakeMagic(absl::string_view* input) {
  DP_ASSIGN_OR_RETURN(const bool complete, parser_.Take(input));
  if (!complete) return false;
  const int64_t number = parser_.Finish().number;
  if (number == kMagic) {
    dialect_ = Dialect::kC;
    state_ = State::kCode;
    return true;
  }
  if (!options_.admit_without_handshake) return NoHandshake();
  // The supposed handshake is a set of A or B, and these bytes begin the length of its key.
  DP_RETURN_IF_ERROR(BeginRequest(0));
  std::string begun;
  AppendNumber(number, &begun);
  absl::string_view four = absl::string_view(begun).substr(0, 4);
  DP_ASSIGN_OR_RETURN(const bool whole, parser_.Take(&four));
  DP_CHECK(!whole);
  return true;
}

absl::Status RequestParser::BeginRequest(uint8_t code) {
  std::optional<Verb> verb = VerbOf(code, dialect_);
  if (!verb.has_value() && dialect_ == Dialect::kA) {
    verb = VerbOf(code, Dialect::kB);
    if (verb.has_value()) dialect_ = Dialect::kB;
  }
  if (!verb.has_value() || verb == Verb::kValidate)
    return absl::InvalidArgumentError(absl::StrCat("no operation has code ", code));
  verb_ = *verb;
  parser_.Begin(RequestShape(verb_));
  state_ = State::kFields;
  return absl::OkStatus();
}

absl::StatusOr<bool> RequestParser::TakeFields(absl::string_view* input, Request* request) {
  DP_ASSIGN_OR_RETURN(const bool complete, parser_.Take(input));
  if (!complete) return false;
  state_ = State::kCode;
  request->verb = verb_;
  request->fields = parser_.Finish();
  return true;
}

}  // namespace dp::wire
