#include "store/wire/request_parser.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Captured bytes: blanks mean nothing, and "n.." is the number n in 64 bits.
std::string Bytes(absl::string_view hex) {
  return absl::HexStringToBytes(absl::StrReplaceAll(hex, {{"..", "00000000000000"}, {" ", ""}}));
}

const char kHandshake[] = "00 cef7853c";

struct Parsed {
  std::vector<Request> requests;
  absl::Status status;
  Dialect dialect;
};

Parsed ParseInPieces(absl::string_view bytes, size_t piece, const RequestOptions& options = {}) {
  RequestParser parser(options);
  Parsed parsed;
  for (; !bytes.empty() && parsed.status.ok(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    absl::string_view input = bytes.substr(0, piece);
    Request request;
    absl::StatusOr<bool> found = true;
    while ((found = parser.Next(&input, &request)).ok() && *found)
      parsed.requests.push_back(request);
    parsed.status = found.status();
  }
  parsed.dialect = parser.dialect();
  return parsed;
}

Parsed Parse(absl::string_view hex, const RequestOptions& options = {}) {
  const std::string bytes = Bytes(hex);
  return ParseInPieces(bytes, bytes.size(), options);
}

TEST(RequestParserTest, ReadsWhatPyTorch1Sends) {
  EXPECT_THAT(Parse("00 02.. 2f6b 02.. 7631").requests,
              ElementsAre(Request{Verb::kSet, {{"/k", "v1"}}}));
  EXPECT_THAT(Parse("05 01.. 02.. 2f6b 02 02.. 2f6b").requests,
              ElementsAre(Request{Verb::kWait, {{"/k"}}}, Request{Verb::kGet, {{"/k"}}}));
  EXPECT_THAT(Parse("03 04.. 2f636e74 f9ffffffffffffff").requests,
              ElementsAre(Request{Verb::kAdd, {{"/cnt"}, -7}}));
  EXPECT_THAT(Parse("01 03.. 2f6373 01.. 41 01.. 42").requests,
              ElementsAre(Request{Verb::kCompareSet, {{"/cs", "A", "B"}}}));
  EXPECT_THAT(Parse("08 02.. 2f6b 06 07 03.. 2f776b").requests,
              ElementsAre(Request{Verb::kDeleteKey, {{"/k"}}}, Request{Verb::kNumKeys},
                          Request{Verb::kWatchKey, {{"/wk"}}}));
}

TEST(RequestParserTest, ReadsWhatPyTorch2Sends) {
  const Parsed parsed = Parse(absl::StrCat(
      kHandshake, "0d c96f0000 01 02.. 2f6b 02.. 7631 05 02.. 02.. 2f6b 06.. 2f6e6f6b6579",
      "05 00.. 09 03.. 2f6170 01.. 78 0b 02.. 03.. 2f6d31 01.. 61 03.. 2f6d32 02.. 6262",
      "0c 11 12 04.. 2f626172 01.."));
  EXPECT_EQ(parsed.dialect, Dialect::kC);
  EXPECT_THAT(
      parsed.requests,
      ElementsAre(Request{Verb::kPing, {{}, 0x6fc9}}, Request{Verb::kSet, {{"/k", "v1"}}},
                  Request{Verb::kCheck, {{"/k", "/nokey"}}}, Request{Verb::kCheck},
                  Request{Verb::kAppend, {{"/ap", "x"}}},
                  Request{Verb::kMultiSet, {{"/m1", "a", "/m2", "bb"}}}, Request{Verb::kCancelWait},
                  Request{Verb::kListKeys}, Request{Verb::kBarrier, {{"/bar"}, 1}}));
}

TEST(RequestParserTest, EveryVerbOfEveryDialectIsReadAsItWasWritten) {
  for (const Dialect dialect : {Dialect::kA, Dialect::kB, Dialect::kC}) {
    std::string bytes = dialect == Dialect::kC ? Bytes(kHandshake) : "";
    std::vector<Request> sent;
    for (size_t i = 1; i < kVerbs; ++i) {
      Request request{static_cast<Verb>(i)};
      if (!CodeOf(request.verb, dialect)) continue;
      for (Shape field = RequestShape(request.verb); *field != '\0'; ++field) {
        if (*field == 'k' || *field == 'v') request.fields.strings.push_back("word");
        if (*field == 'n' || *field == 'u') request.fields.number = 77;
      }
      AppendRequest(dialect, request, &bytes);
      sent.push_back(request);
    }
    for (size_t piece = 1; piece <= 9; ++piece) {
      const Parsed parsed = ParseInPieces(bytes, piece, {.without_handshake = dialect});
      EXPECT_TRUE(parsed.status.ok()) << parsed.status;
      EXPECT_EQ(parsed.requests, sent) << "in pieces of " << piece;
    }
  }
}

TEST(RequestParserTest, AClientThatSendsACodeOnlyPyTorch21HasSpeaksB) {
  const Parsed parsed = Parse("02 01.. 6b 0b 07 01.. 6b");
  EXPECT_EQ(parsed.dialect, Dialect::kB);
  EXPECT_EQ(parsed.requests[1].verb, Verb::kCancelWait);
  EXPECT_EQ(parsed.requests[2].verb, Verb::kDeleteKey);
}

TEST(RequestParserTest, ClientsWithoutHandshakeCanBeSaidToSpeakB) {
  const Parsed parsed = Parse("08 01.. 6b 01.. 76", {.without_handshake = Dialect::kB});
  EXPECT_THAT(parsed.requests, ElementsAre(Request{Verb::kAppend, {{"k", "v"}}}));
}

TEST(RequestParserTest, ClientsWithoutHandshakeCanBeShutOut) {
  const RequestOptions strict{.admit_without_handshake = false};
  EXPECT_FALSE(Parse("02 01.. 6b", strict).status.ok());
  EXPECT_FALSE(Parse("00 02.. 2f6b", strict).status.ok());
  EXPECT_TRUE(Parse(kHandshake, strict).status.ok());
}

TEST(RequestParserTest, AWrongMagicIsAKeyTooLong) {
  EXPECT_THAT(std::string(Parse("00 cef7853d 00000000").status.message()),
              HasSubstr("a key of 1032189902 bytes"));
}

TEST(RequestParserTest, UnknownCodesAndASecondHandshakeAreRefused) {
  EXPECT_EQ(Parse("0c").status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse("47455420").status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Parse(absl::StrCat(kHandshake, "13")).status.ok());
  EXPECT_FALSE(Parse(absl::StrCat(kHandshake, kHandshake)).status.ok());
}

TEST(RequestParserTest, ARequestCutAnywhereIsNoRequest) {
  const std::string bytes = Bytes("00 02.. 2f6b 02.. 7631");
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const Parsed parsed = ParseInPieces(bytes.substr(0, cut), 100);
    EXPECT_TRUE(parsed.status.ok());
    EXPECT_THAT(parsed.requests, IsEmpty()) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace dp::wire
