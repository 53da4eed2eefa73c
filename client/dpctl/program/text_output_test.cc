#include <sstream>

#include "client/dpctl/run/screen.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/table.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"ID", "NAME"});
  table.Add({"7", "a-rather-long-name"});
  table.Add({"1234", ""});
  std::ostringstream with, without;
  table.Print(with, /*with_headings=*/true);
  table.Print(without, /*with_headings=*/false, "  ");
  EXPECT_EQ(with.str(), "ID    NAME\n7     a-rather-long-name\n1234  -\n");
  EXPECT_EQ(without.str(), "  7     a-rather-long-name\n  1234  -\n");
}

TEST(TableTest, ACellCannotMoveTheCursorOrBeginALine) {
  Table table({"TEXT"});
  table.Add({"a\nb\x1b[2J\x7f\t\xc2\x9b ü"});
  std::ostringstream out;
  table.Print(out, /*with_headings=*/false);
  EXPECT_EQ(out.str(), "a\\nb\\x1b[2J\\x7f\\t\\u009b ü\n");
}

TEST(JsonWriterTest, NestingAndEmptyThings) {
  std::ostringstream out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("empty");
  json.BeginArray();
  json.EndArray();
  json.Key("list");
  json.BeginArray();
  json.Int(-1);
  json.BeginObject();
  json.EndObject();
  json.EndArray();
  json.EndObject();
  EXPECT_EQ(out.str(), "{\n  \"empty\": [],\n  \"list\": [\n    -1,\n    {}\n  ]\n}\n");
}

TEST(JsonWriterTest, TextIsEscapedAndBrokenUtf8Replaced) {
  std::ostringstream out;
  JsonWriter json(out, JsonWriter::Style::kOneLine);
  json.BeginArray();
  json.String("a\"\\\n\x01");
  json.String("h\xc3\xa4 \xf0\x9f\x98\x80");
  json.String("\xff|\xc3|\xed\xa0\x80|\xc0\xaf");
  json.EndArray();
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(out.str(), "[\"a\\\"\\\\\\n\\u0001\",\"h\xc3\xa4 \xf0\x9f\x98\x80\",\"" + bad + "|" +
                           bad + "|" + bad + bad + bad + "|" + bad + bad + "\"]\n");
}

TEST(JsonWriterTest, ControlCharactersThatTerminalsObeyAreEscaped) {
  std::ostringstream out;
  JsonWriter json(out, JsonWriter::Style::kOneLine);
  json.String("\x7f|\xc2\x9b|\xc2\xa0");
  EXPECT_EQ(out.str(), "\"\\u007f|\\u009b|\xc2\xa0\"");
}

TEST(ScreenTest, ATerminalGetsNoControlCharactersOfRanks) {
  std::ostringstream out, err;
  Terminal terminal{.out = out, .err = err, .err_is_tty = true};
  Screen screen(terminal);
  const LogLine line{1, 0, v1::LOG_STREAM_STDOUT, "\x1b[2J"};
  screen.Line(out, line, "");
  screen.Line(err, line, "");
  EXPECT_EQ(out.str(), "\x1b[2J\n");
  EXPECT_EQ(err.str(), "\\x1b[2J\n");
}

TEST(ScreenTest, LinesPassAboveTheBarOnATerminalOnly) {
  for (const bool tty : {true, false}) {
    std::ostringstream out, err;
    Terminal terminal{.out = out, .err = err, .err_is_tty = tty};
    {
      Screen screen(terminal);
      screen.Bar("bar");
      screen.Line(out, "line");
    }
    EXPECT_EQ(out.str(), "line\n");
    EXPECT_EQ(err.str(), tty ? "bar\r\x1b[Kbar\r\x1b[K" : "");
  }
}

}  // namespace
}  // namespace dp::ctl
