#include "store/wire/fields.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::wire {
namespace {

const Limits kSmall{.key_bytes = 4, .value_bytes = 8, .keys = 3, .message_bytes = 200};

std::string Encode(Shape shape, const Fields& fields) {
  std::string bytes;
  AppendFields(shape, fields, &bytes);
  return bytes;
}

// Parses `bytes` in one piece; nothing if the message is incomplete.
absl::StatusOr<std::optional<Fields>> Parse(Shape shape, absl::string_view bytes,
                                            uint64_t count = 0) {
  FieldParser parser(kSmall);
  parser.Begin(shape, count);
  absl::StatusOr<bool> complete = parser.Take(&bytes);
  if (!complete.ok()) return complete.status();
  if (!*complete) return std::optional<Fields>();
  return std::optional<Fields>(parser.Finish());
}

std::string Announce(uint64_t length) {
  std::string bytes;
  AppendNumber(static_cast<int64_t>(length), &bytes);
  return bytes;
}

TEST(LimitsTest, AServerTakesWhatItsStoreTakesAndNeverLessThanPyTorchs) {
  const Limits wide = Limits::For({.key_bytes = 20 << 10, .value_bytes = 9 << 20});
  EXPECT_EQ(wide.key_bytes, size_t{20} << 10);
  EXPECT_EQ(wide.value_bytes, size_t{9} << 20);
  const Limits narrow = Limits::For({.key_bytes = 10, .value_bytes = 10, .keys = 10});
  EXPECT_EQ(narrow.key_bytes, Limits().key_bytes);
  EXPECT_EQ(narrow.value_bytes, Limits().value_bytes);
  EXPECT_EQ(narrow.keys, Limits().keys);
}

struct Example {
  Shape shape;
  Fields fields;
  uint64_t count = 0;
};

std::vector<Example> Examples() {
  return {{"b", {{}, 200}},
          {"u", {{}, 0xfedcba98}},
          {"n", {{}, -7}},
          {"kv", {{"key", std::string("\0\xff", 2)}}},
          {"kvv", {{"", "", ""}}},
          {"kn", {{"k"}, int64_t{1} << 40}},
          {"*k", {{"a", "", "b"}}},
          {"*k", {}},
          {"*kv", {{"a", "1", "b", "2"}}},
          {"+v", {{"x", "yy"}}, 2},
          {"n?v", {{"head"}, 3}},
          {"n?v", {{}, 0}}};
}

TEST(FieldsTest, WhatIsEncodedIsParsedAgain) {
  for (const Example& example : Examples())
    EXPECT_EQ(Parse(example.shape, Encode(example.shape, example.fields), example.count).value(),
              example.fields)
        << example.shape;
}

TEST(FieldsTest, AMessageCutAnywhereIsIncompleteAndGoesOnFromThere) {
  for (const Example& example : Examples()) {
    const std::string bytes = Encode(example.shape, example.fields);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      FieldParser parser(kSmall);
      parser.Begin(example.shape, example.count);
      absl::string_view head = absl::string_view(bytes).substr(0, cut);
      absl::string_view tail = absl::string_view(bytes).substr(cut);
      EXPECT_FALSE(parser.Take(&head).value()) << example.shape << " cut at " << cut;
      EXPECT_TRUE(parser.Take(&tail).value()) << example.shape << " cut at " << cut;
      EXPECT_EQ(parser.Finish(), example.fields);
    }
  }
}

TEST(FieldsTest, NothingBeyondTheMessageIsTaken) {
  for (const Example& example : Examples()) {
    const std::string bytes = Encode(example.shape, example.fields) + "next";
    FieldParser parser(kSmall);
    parser.Begin(example.shape, example.count);
    absl::string_view input = bytes;
    EXPECT_TRUE(parser.Take(&input).value());
    EXPECT_EQ(input, "next") << example.shape;
  }
}

TEST(FieldsTest, OneFlippedBitIsRefusedOrGivesOtherFields) {
  for (const Example& example : Examples()) {
    const std::string bytes = Encode(example.shape, example.fields);
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      auto parsed = Parse(example.shape, flipped, example.count);
      if (parsed.ok() && parsed->has_value()) {
        EXPECT_NE(**parsed, example.fields) << example.shape << " bit " << bit;
      }
    }
  }
}

TEST(FieldsTest, LengthsBeyondALimitAreRefusedBeforeTheBytesCome) {
  using absl::StatusCode::kResourceExhausted;
  EXPECT_EQ(Parse("k", Announce(5)).status().code(), kResourceExhausted);
  EXPECT_EQ(Parse("v", Announce(9)).status().code(), kResourceExhausted);
  EXPECT_EQ(Parse("*k", Announce(4)).status().code(), kResourceExhausted);
  EXPECT_EQ(Parse("k", Announce(~uint64_t{0})).status().code(), kResourceExhausted);
  EXPECT_TRUE(Parse("k", Announce(4)).ok());
  EXPECT_TRUE(Parse("v", Announce(8)).ok());
  EXPECT_TRUE(Parse("*k", Announce(3)).ok());
}

TEST(FieldsTest, AMessageOfManySmallStringsIsBoundedAltogether) {
  FieldParser parser({.key_bytes = 4, .value_bytes = 4, .keys = 1000, .message_bytes = 200});
  parser.Begin("*k");
  const std::string bytes = Announce(1000) + std::string(8000, '\0');
  absl::string_view input = bytes;
  EXPECT_EQ(parser.Take(&input).status().message(), "message takes 224 bytes, the limit is 200");
}

}  // namespace
}  // namespace dp::wire
