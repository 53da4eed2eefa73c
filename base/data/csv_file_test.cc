#include "base/data/csv_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/data/sample_source.h"
#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& text, const std::string& name = "a.csv") {
    std::ofstream(dir_.path() / name, std::ios::binary) << text;
    return dir_.path() / name;
  }
  // Column `label` of such a text as labels.
  absl::StatusOr<SampleSet> Read(const std::string& text, CsvFiles files = {.labels = "label"}) {
    files.paths = {Write(text)};
    return ReadCsvSet(files);
  }
  // The error behind the path.
  std::string ErrorOf(const std::string& text, const CsvFiles& files = {.labels = "label"}) {
    const std::string message(Read(text, files).status().message());
    return message.substr(std::min(message.size(), (dir_.path() / "a.csv").string().size()));
  }
  static std::vector<float> Row(const Rows& rows, int64_t row) {
    std::vector<float> values(static_cast<size_t>(rows.elements()));
    rows.Read(row, absl::MakeSpan(values));
    return values;
  }

  ScratchDir dir_;
};

TEST_F(CsvFileTest, AllOtherColumnsAreInputs) {
  const auto set = Read("x,label,y\n1,2,-3.5\r\n\n4e-1, 0 ,6");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->inputs.shape(), (model::Shape{2}));
  EXPECT_THAT(Row(set->inputs, 0), ElementsAre(1, -3.5));
  EXPECT_THAT(Row(set->inputs, 1), ElementsAre(0.4f, 6));
  EXPECT_EQ(set->labels.at(0), 2);
  EXPECT_EQ(set->labels.classes(), 3);
}

TEST_F(CsvFileTest, AnErrorSaysWhatToDo) {
  EXPECT_THAT(ErrorOf("x;label\n1;2\n"),
              HasSubstr("if \";\" stands between its fields, give it as csv.delimiter"));
  EXPECT_THAT(ErrorOf("1\t2\n", {.labels = "0"}), HasSubstr("if \"\\t\" stands between"));
  EXPECT_EQ(ErrorOf("x,label\n,2\n"),
            ":2: column 0 ('x'): '' is empty; give a number, or leave the line out");
  EXPECT_THAT(ErrorOf("x,label\n1,\n"), HasSubstr("'' is empty; give a number"));
  EXPECT_THAT(ErrorOf("x,label\n1,-1\n"), HasSubstr("write classes as numbers, the first as 0"));
}

TEST_F(CsvFileTest, ColumnsHaveNumbersWhereNoLineNamesThem) {
  const auto set = Read("1;2;3\n4;5;6\n", {.delimiter = ';', .inputs = {"2", "0"}, .labels = "1"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(set->inputs, 1), ElementsAre(6, 4));
  EXPECT_EQ(set->labels.at(1), 5);
  EXPECT_EQ(Read("1;2\n3;4\n", {.header = true, .delimiter = ';', .labels = "1"})->inputs.size(),
            1);
}

TEST_F(CsvFileTest, NamesMayStandInQuotes) {
  const auto set = Read("\"a, b\",\"label\"\n\"1\",2\n");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(set->inputs, 0), ElementsAre(1));
  EXPECT_EQ(Read("\"the \"\"x\"\"\",label\n1,2\n", {.inputs = {"the \"x\""}, .labels = "label"})
                ->inputs.size(),
            1);
}

TEST_F(CsvFileTest, TargetsAreNumbers) {
  const auto set = Read("x,p,q\n1,0.5,-2\n", {.targets = {"q", "p"}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(*set->targets, 0), ElementsAre(-2, 0.5));
  EXPECT_THAT(Row(set->inputs, 0), ElementsAre(1));
  EXPECT_EQ(set->labels.size(), 0);
}

TEST_F(CsvFileTest, FilesFollowOneAnother) {
  const std::string first = Write("x,label\n1,0\n"), second = Write("label,x\n1,7\n", "b.csv");
  const auto set = ReadCsvSet({.paths = {first, second}, .labels = "label"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(set->inputs, 1), ElementsAre(7));
}

TEST_F(CsvFileTest, TheFirstFileNamesTheInputsOfAllFiles) {
  const std::string first = Write("x,y,label\n1,2,0\n");
  const auto inputs = [&](const std::string& text) {
    const auto set = ReadCsvSet({.paths = {first, Write(text, "b.csv")}, .labels = "label"});
    EXPECT_TRUE(set.ok()) << set.status();
    return set.ok() ? Row(set->inputs, 1) : std::vector<float>();
  };
  EXPECT_THAT(inputs("y,label,x\n7,1,8\n"), ElementsAre(8, 7));
  EXPECT_THAT(inputs("id,y,label,x\n3,7,1,8\n"), ElementsAre(8, 7));
  const auto error = [&](const std::string& text, const std::string& labels) {
    return std::string(
        ReadCsvSet({.paths = {first, Write(text, "b.csv")}, .labels = labels}).status().message());
  };
  EXPECT_THAT(error("x,label\n1,0\n", "label"),
              HasSubstr("b.csv: has no column 'y', an input in "));
  EXPECT_THAT(error("x,y,x,label\n1,2,3,0\n", "label"), HasSubstr("b.csv: has two columns 'x', "));
  EXPECT_THAT(error("x,label,y\n1,0,2\n", "2"),
              HasSubstr("b.csv: has as labels or targets 'y', an input in "));
}

TEST_F(CsvFileTest, WithoutNamesInputsHaveTheSamePlaces) {
  const std::string first = Write("1,2,0\n");
  const auto set =
      ReadCsvSet({.paths = {first, Write("x,y,label\n3,4,1\n", "b.csv")}, .labels = "2"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(set->inputs, 1), ElementsAre(3, 4));
  EXPECT_THAT(
      ReadCsvSet({.paths = {first, Write("1,2,0,4\n", "b.csv")}, .labels = "2"}).status().message(),
      HasSubstr("b.csv: has 4 columns, and "));
}

TEST_F(CsvFileTest, ATestSetHasTheInputsOfTheTrainingSet) {
  const CsvSource source{{.paths = {Write("x,y,label\n1,2,0\n")}, .labels = "label"},
                         {.paths = {Write("label,y,x\n1,7,8\n", "b.csv")}, .labels = "label"}};
  const auto set = ReadSamples(source, Split::kTest);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->inputs.size(), 1);
  EXPECT_THAT(Row(set->inputs, 0), ElementsAre(8, 7));
}

TEST_F(CsvFileTest, AByteOrderMarkIsNoPartOfAName) {
  const auto set = Read("\xef\xbb\xbflabel,x\n1,2\n");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(set->inputs, 0), ElementsAre(2));
  EXPECT_EQ(Read("\xef\xbb\xbf"
                 "1,2\n",
                 {.labels = "1"})
                ->inputs.size(),
            1);
}

TEST_F(CsvFileTest, ADelimiterThatIsASpaceDividesEmptyFields) {
  EXPECT_THAT(ErrorOf("label\tx\n\t\"1\"\n", {.delimiter = '\t', .labels = "label"}),
              HasSubstr(":2: column 0 ('label'): '' is empty"));
  const auto set = Read("label x\n0 \"5\"\n", {.delimiter = ' ', .labels = "label"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Row(set->inputs, 0), ElementsAre(5));
}

TEST_F(CsvFileTest, ADelimiterIsFoundWhereAnotherOneCannotReadTheLine) {
  EXPECT_EQ(FindCsvDelimiter(Write("\"a,b\";\"c\"\n1;2\n")).value_or(0), ';');
  EXPECT_EQ(FindCsvDelimiter(Write("x\n1\n")).value_or(0), ',');
  EXPECT_FALSE(FindCsvDelimiter(Write("\"a\n1\n")).ok());
  EXPECT_TRUE(absl::IsNotFound(FindCsvDelimiter(dir_.path() / "none").status()));
}

TEST_F(CsvFileTest, AnErrorNamesLineAndColumn) {
  EXPECT_EQ(ErrorOf("x,label\n1,0\nred,1\n"),
            ":3: column 0 ('x'): 'red' is no finite number; write categories as numbers");
  EXPECT_THAT(ErrorOf("x,label\n,0\n"), HasSubstr(":2: column 0 ('x'): '' is empty"));
  EXPECT_THAT(ErrorOf("x,label\nnan,0\n"), HasSubstr("'nan' is no finite number"));
  EXPECT_THAT(ErrorOf("x,label\n1,0.5\n"),
              HasSubstr(":2: column 1 ('label'): '0.5' is no class; expected a whole number"));
  EXPECT_THAT(ErrorOf("x,label\n1,0.5\n"), HasSubstr(", or give the column as targets"));
  EXPECT_THAT(
      ErrorOf("x,label\n1,cat\n"),
      HasSubstr("'cat' is no class; expected a whole number from 0 to 16777215; write classes "
                "as numbers, the first as 0"));
  EXPECT_THAT(ErrorOf("x,label\n1,-1\n"), HasSubstr("'-1' is no class"));
  EXPECT_EQ(ErrorOf("x,label\n1,0,7\n"), ":2: has 3 fields, but there are 2 columns");
  EXPECT_THAT(ErrorOf("x,label\n\"1,0\n"), HasSubstr(":2: a quoted field does not end"));
  EXPECT_THAT(ErrorOf("x,label\n\"1\"2,0\n"), HasSubstr(":2: a quoted field does not end"));
}

TEST_F(CsvFileTest, AnUnknownColumnIsNamedWithThoseThatThereAre) {
  EXPECT_EQ(ErrorOf("x,y\n1,2\n"),
            ": has no column 'label'; there are x, y, or numbers from 0 to 1");
  EXPECT_THAT(ErrorOf("1,2\n", {.labels = "2"}), HasSubstr("has no column '2'"));
  EXPECT_THAT(ErrorOf("label\n1\n"), HasSubstr("has no column for inputs"));
}

TEST_F(CsvFileTest, AFileWithoutSamplesIsAnError) {
  EXPECT_EQ(ErrorOf("x,label\n"), ": holds no samples");
  EXPECT_EQ(ErrorOf(""), ": holds no samples");
}

}  // namespace
}  // namespace dp::data
