#include "base/data/csv_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/data/csv_line.h"
#include "base/data/file_bytes.h"
#include "base/status.h"

namespace dp::data {
namespace {

// The longest part of a field in an error.
constexpr size_t kFieldShownMax = 40;
constexpr size_t kColumnsShownMax = 30;

std::string ShownField(absl::string_view field) {
  std::string shown(field.substr(0, kFieldShownMax));
  for (char& c : shown) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return shown;
}

// An open file behind its header, if it has one.
struct CsvText {
  std::string path;
  FileBytes file;
  absl::string_view rest;
  int64_t line = 0;                  // of the last line taken
  bool named = false;                // whether a line names columns
  std::vector<std::string> columns;  // names, or numbers where no line names columns
};

absl::Status WrongCsv(const CsvText& text, const absl::AlphaNum& what) {
  return absl::InvalidArgumentError(absl::StrCat(text.path, ":", text.line, ": ", what));
}

bool IsNumber(const std::string& field) {
  double value = 0;
  return absl::SimpleAtod(field, &value);
}

absl::StatusOr<CsvText> OpenCsv(const CsvFiles& files, const std::string& path) {
  CsvText text{.path = path};
  DP_ASSIGN_OR_RETURN(text.file, OpenFile(path));
  text.rest = absl::string_view(reinterpret_cast<const char*>(text.file.bytes.data()),
                                text.file.bytes.size());
  SkipByteOrderMark(text.rest);
  absl::string_view after = text.rest;
  int64_t number = 0;
  const absl::string_view first = TakeCsvLine(after, number);
  if (first.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": holds no samples"));
  std::vector<std::string> fields;
  if (!SplitCsvLine(first, files.delimiter, fields)) {
    text.line = number;
    return WrongCsv(text, "a quoted field does not end; quotes stand around whole fields");
  }
  text.named = files.header.value_or(!std::all_of(fields.begin(), fields.end(), IsNumber));
  if (text.named) {
    text.columns = std::move(fields);
    text.rest = after;
    text.line = number;
  } else {
    for (size_t i = 0; i < fields.size(); ++i) text.columns.push_back(absl::StrCat(i));
  }
  return text;
}

// The remedy for a file of one column that another character divides; empty elsewhere.
std::string DelimiterRemedy(const CsvText& text) {
  if (text.columns.size() != 1) return "";
  for (const char other : {',', ';', '\t', '|'}) {
    if (!absl::StrContains(text.columns[0], std::string(1, other))) continue;
    const std::string shown = other == '\t' ? "\\t" : std::string(1, other);
    return absl::StrCat("; if \"", shown, "\" stands between its fields, give it as csv.delimiter");
  }
  return "";
}

absl::StatusOr<size_t> FindColumn(const CsvText& text, const std::string& wanted) {
  const auto found = std::find(text.columns.begin(), text.columns.end(), wanted);
  if (found != text.columns.end()) return found - text.columns.begin();
  size_t number = 0;
  if (absl::SimpleAtoi(wanted, &number) && number < text.columns.size()) return number;
  std::vector<std::string> shown(
      text.columns.begin(), text.columns.begin() + std::min(text.columns.size(), kColumnsShownMax));
  for (std::string& each : shown) each = ShownField(each);
  return absl::InvalidArgumentError(absl::StrCat(
      text.path, ": has no column '", wanted, "'; there are ", absl::StrJoin(shown, ", "),
      ", or numbers from 0 to ", text.columns.size() - 1, DelimiterRemedy(text)));
}

// The numbers of the columns that a set reads.
struct Columns {
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;  // the labels alone, or targets
};

absl::StatusOr<std::vector<size_t>> FindColumns(const CsvText& text,
                                                const std::vector<std::string>& names) {
  std::vector<size_t> columns;
  for (const std::string& name : names) {
    DP_ASSIGN_OR_RETURN(columns.emplace_back(), FindColumn(text, name));
  }
  return columns;
}

std::vector<std::string> OutputsOf(const CsvFiles& files) {
  return files.labels.empty() ? files.targets : std::vector<std::string>{files.labels};
}

absl::StatusOr<Columns> ChooseColumns(const CsvFiles& files, const CsvText& text) {
  Columns columns;
  DP_ASSIGN_OR_RETURN(columns.outputs, FindColumns(text, OutputsOf(files)));
  DP_ASSIGN_OR_RETURN(columns.inputs, FindColumns(text, files.inputs));
  for (size_t i = 0; files.inputs.empty() && i < text.columns.size(); ++i) {
    const auto& taken = columns.outputs;
    if (std::find(taken.begin(), taken.end(), i) == taken.end()) columns.inputs.push_back(i);
  }
  if (!columns.inputs.empty()) return columns;
  return absl::InvalidArgumentError(
      absl::StrCat(text.path, ": has no column for inputs beside those of labels or targets",
                   DelimiterRemedy(text)));
}

// The columns of the file that names the default inputs.
struct FirstColumns {
  std::string path;
  bool named = false;
  std::vector<std::string> names;
  Columns chosen;
};

absl::StatusOr<FirstColumns> ChooseFirstColumns(const CsvFiles& files, const std::string& path) {
  DP_ASSIGN_OR_RETURN(CsvText text, OpenCsv(files, path));
  DP_ASSIGN_OR_RETURN(Columns chosen, ChooseColumns(files, text));
  return FirstColumns{path, text.named, std::move(text.columns), std::move(chosen)};
}

// The column of `text` that has the name of an input of the first file.
absl::StatusOr<size_t> FindInput(const CsvText& text, const std::string& name,
                                 const FirstColumns& first, const Columns& chosen) {
  const auto& names = text.columns;
  const auto found = std::find(names.begin(), names.end(), name);
  const auto wrong = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(text.path, ": ", what, " '", ShownField(name),
                                                   "', an input in ", first.path,
                                                   "; name the inputs, or change the first line"));
  };
  if (found == names.end()) return wrong("has no column");
  if (std::find(found + 1, names.end(), name) != names.end()) return wrong("has two columns");
  const size_t column = found - names.begin();
  const auto& outputs = chosen.outputs;
  if (std::find(outputs.begin(), outputs.end(), column) == outputs.end()) return column;
  return wrong("has as labels or targets");
}

// The columns of any file, where the first one fixes the default inputs.
absl::StatusOr<Columns> ChooseSameColumns(const CsvFiles& files, const CsvText& text,
                                          const FirstColumns& first) {
  if (!files.inputs.empty() || text.columns == first.names) return ChooseColumns(files, text);
  if (!first.named || !text.named) {
    if (text.columns.size() == first.names.size()) return ChooseColumns(files, text);
    return absl::InvalidArgumentError(absl::StrCat(text.path, ": has ", text.columns.size(),
                                                   " columns, and ", first.path, " has ",
                                                   first.names.size()));
  }
  Columns columns;
  DP_ASSIGN_OR_RETURN(columns.outputs, FindColumns(text, OutputsOf(files)));
  for (const size_t input : first.chosen.inputs) {
    DP_ASSIGN_OR_RETURN(columns.inputs.emplace_back(),
                        FindInput(text, first.names[input], first, columns));
  }
  return columns;
}

// Reads the lines of one file after another.
class CsvReader {
 public:
  CsvReader(const CsvFiles& files, FirstColumns first) : files_(files), first_(std::move(first)) {}

  absl::Status Read(const std::string& path) {
    DP_ASSIGN_OR_RETURN(CsvText text, OpenCsv(files_, path));
    DP_ASSIGN_OR_RETURN(const Columns columns, ChooseSameColumns(files_, text, first_));
    while (true) {
      const absl::string_view line = TakeCsvLine(text.rest, text.line);
      if (line.empty()) return absl::OkStatus();
      DP_RETURN_IF_ERROR(ReadLine(text, columns, line));
    }
  }

  absl::StatusOr<SampleSet> Finish() && {
    if (samples_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(files_.paths[0], ": holds no samples"));
    }
    SampleSet set;
    set.inputs = RowsOf(std::move(inputs_), first_.chosen.inputs.size());
    set.labels_name = files_.paths[0];
    if (!files_.labels.empty()) {
      set.labels = Labels(std::move(labels_));
    } else if (!files_.targets.empty()) {
      set.targets = RowsOf(std::move(targets_), first_.chosen.outputs.size());
    }
    return set;
  }

 private:
  Rows RowsOf(std::vector<float> values, size_t columns) const {
    auto owned = std::make_shared<const std::vector<float>>(std::move(values));
    Rows rows(ElementType::kFloat32, false, {static_cast<int64_t>(columns)});
    rows.Append({.first = reinterpret_cast<const uint8_t*>(owned->data()),
                 .stride = static_cast<int64_t>(columns * sizeof(float)),
                 .count = samples_},
                owned);
    return rows;
  }

  absl::Status ReadLine(const CsvText& text, const Columns& columns, absl::string_view line) {
    if (!SplitCsvLine(line, files_.delimiter, fields_)) {
      return WrongCsv(text, "a quoted field does not end; quotes stand around whole fields");
    }
    if (fields_.size() != text.columns.size()) {
      return WrongCsv(text, absl::StrCat("has ", fields_.size(), " fields, but there are ",
                                         text.columns.size(), " columns"));
    }
    for (const size_t column : columns.inputs) {
      DP_ASSIGN_OR_RETURN(const float value, Number(text, column));
      inputs_.push_back(value);
    }
    for (const size_t column : columns.outputs) {
      DP_RETURN_IF_ERROR(files_.labels.empty() ? ReadTarget(text, column)
                                               : ReadLabel(text, column));
    }
    ++samples_;
    return absl::OkStatus();
  }

  absl::Status ReadTarget(const CsvText& text, size_t column) {
    DP_ASSIGN_OR_RETURN(const float value, Number(text, column));
    targets_.push_back(value);
    return absl::OkStatus();
  }

  absl::Status ReadLabel(const CsvText& text, size_t column) {
    double value = 0;
    const bool number = absl::SimpleAtod(fields_[column], &value);
    if (fields_[column].empty()) return EmptyField(text, column);
    if (!number || !(value >= 0 && value < kClassesMax) || std::floor(value) != value) {
      return WrongField(
          text, column,
          absl::StrCat("is no class; expected a whole number from 0 to ", kClassesMax - 1,
                       number && value >= 0 ? ", or give the column as targets"
                                            : "; write classes as numbers, the first as 0"));
    }
    labels_.push_back(static_cast<int32_t>(value));
    return absl::OkStatus();
  }

  absl::StatusOr<float> Number(const CsvText& text, size_t column) const {
    float value = 0;
    if (fields_[column].empty()) return EmptyField(text, column);
    if (!absl::SimpleAtof(fields_[column], &value) || !std::isfinite(value)) {
      return WrongField(text, column, "is no finite number; write categories as numbers");
    }
    return value;
  }

  absl::Status EmptyField(const CsvText& text, size_t column) const {
    return WrongField(text, column, "is empty; give a number, or leave the line out");
  }

  absl::Status WrongField(const CsvText& text, size_t column, const std::string& what) const {
    return WrongCsv(text, absl::StrCat("column ", column, " ('", ShownField(text.columns[column]),
                                       "'): '", ShownField(fields_[column]), "' ", what));
  }

  const CsvFiles& files_;
  const FirstColumns first_;
  std::vector<std::string> fields_;
  std::vector<float> inputs_;
  std::vector<float> targets_;
  std::vector<int32_t> labels_;
  int64_t samples_ = 0;
};

}  // namespace

absl::StatusOr<SampleSet> ReadCsvSet(const CsvFiles& files) {
  const std::string& path = files.first.empty() ? files.paths.at(0) : files.first;
  DP_ASSIGN_OR_RETURN(FirstColumns first, ChooseFirstColumns(files, path));
  CsvReader reader(files, std::move(first));
  for (const std::string& path : files.paths) DP_RETURN_IF_ERROR(reader.Read(path));
  return std::move(reader).Finish();
}

absl::StatusOr<std::vector<std::string>> ReadCsvColumns(const CsvFiles& files) {
  DP_ASSIGN_OR_RETURN(CsvText text, OpenCsv(files, files.paths.at(0)));
  return std::move(text.columns);
}

absl::StatusOr<model::Shape> ReadCsvShape(const CsvFiles& files) {
  DP_ASSIGN_OR_RETURN(const CsvText text, OpenCsv(files, files.paths.at(0)));
  DP_ASSIGN_OR_RETURN(const Columns columns, ChooseColumns(files, text));
  return model::Shape{static_cast<int64_t>(columns.inputs.size())};
}

absl::StatusOr<char> FindCsvDelimiter(const std::string& path) {
  absl::Status status;
  for (const char delimiter : {',', ';', '\t'}) {
    const auto columns = ReadCsvColumns({.paths = {path}, .delimiter = delimiter});
    if (columns.ok() && columns->size() > 1) return delimiter;
    status.Update(columns.status());
  }
  if (!status.ok()) return status;
  return ',';
}

absl::StatusOr<Rows> ReadCsvTable(const std::string& path) {
  CsvFiles files{.paths = {path}};
  DP_ASSIGN_OR_RETURN(files.delimiter, FindCsvDelimiter(path));
  DP_ASSIGN_OR_RETURN(SampleSet set, ReadCsvSet(files));
  return std::move(set.inputs);
}

}  // namespace dp::data
