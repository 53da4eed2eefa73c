// The request parser and the reply parser on arbitrary bytes. The parsed requests must not depend
// on how the bytes are cut, and must survive encoding and parsing again.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "store/wire/request_parser.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::codec {
namespace {

using namespace dp::wire;

const Limits kLimits{.key_bytes = 64, .value_bytes = 256, .keys = 16, .message_bytes = 4096};

struct Parsed {
  std::vector<Request> requests;
  Dialect dialect = Dialect::kA;
  bool refused = false;
};

Parsed ParseInPieces(absl::string_view bytes, size_t piece) {
  RequestParser parser({.limits = kLimits});
  Parsed parsed;
  while (!bytes.empty() && !parsed.refused) {
    absl::string_view input = bytes.substr(0, piece);
    bytes.remove_prefix(input.size());
    Request request;
    absl::StatusOr<bool> found = true;
    while ((found = parser.Next(&input, &request)).ok() && *found)
      parsed.requests.push_back(request);
    parsed.refused = !found.ok();
    DP_CHECK(parsed.refused || input.empty());
  }
  parsed.dialect = parser.dialect();
  return parsed;
}

void CheckWrittenAgain(const Request& request, Dialect dialect) {
  if (!CodeOf(request.verb, dialect)) return;  // it was sent before the dialect was known
  std::string fields;
  AppendFields(RequestShape(request.verb), request.fields, &fields);
  FieldParser parser(kLimits);
  parser.Begin(RequestShape(request.verb));
  absl::string_view input = fields;
  DP_CHECK(*parser.Take(&input) && input.empty());
  DP_CHECK(parser.Finish() == request.fields);
}

void CheckReplies(absl::string_view bytes) {
  for (size_t verb = 0; verb < kVerbs; ++verb) {
    FieldParser parser(kLimits);
    parser.Begin(ReplyShape(static_cast<Verb>(verb)), bytes.size() % 5);
    absl::string_view input = bytes;
    const auto complete = parser.Take(&input);
    if (complete.ok() && *complete) (void)parser.Finish();
  }
}

}  // namespace

void Run(absl::string_view bytes) {
  const Parsed whole = ParseInPieces(bytes, bytes.size() + 1);
  const Parsed pieces = ParseInPieces(bytes, 1 + bytes.size() % 7);
  DP_CHECK(whole.refused == pieces.refused && whole.requests == pieces.requests);
  for (const Request& request : whole.requests) CheckWrittenAgain(request, whole.dialect);
  CheckReplies(bytes);
}

std::vector<std::string> Seeds() { return WireSeeds(); }

}  // namespace dp::fuzz::codec
