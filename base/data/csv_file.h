#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"

namespace dp::data {

// Files of lines of numbers, a line for each sample. A column is named by the first line, or by its
// number, counted from 0.
struct CsvFiles {
  std::vector<std::string> paths;  // all with the same columns
  std::optional<bool> header;      // none: the first line names columns if one is no number
  char delimiter = ',';
  std::string first;  // the file that default inputs are named by; empty: the first of paths
  std::vector<std::string> inputs;   // columns; none: all that are neither labels nor targets
  std::string labels;                // column of classes; exclusive with targets
  std::vector<std::string> targets;  // columns of numbers to predict
};

// The first of comma, semicolon and tab that divides the first line; comma if none does.
// Errors: as ReadCsvSet, if none divides it and one cannot read it.
absl::StatusOr<char> FindCsvDelimiter(const std::string& path);

// Reads such files into memory, as floats. Default inputs are all columns of the first file that
// are neither labels nor targets. Every other file gives the columns of these names, wherever they
// stand; without names, it has as many columns.
// Fields may stand in quotes; empty lines are left out.
// Errors: those of OpenFile; InvalidArgument names file, line and column of a field that is no
// finite number or no class. Also a line of another number of fields, and a column that is unknown
// or missing.
absl::StatusOr<SampleSet> ReadCsvSet(const CsvFiles& files);

// The names of the columns, or their numbers where the first line has no names.
absl::StatusOr<std::vector<std::string>> ReadCsvColumns(const CsvFiles& files);

// The shape of a sample, from the first line.
absl::StatusOr<model::Shape> ReadCsvShape(const CsvFiles& files);

// All columns of a file, with the delimiter that gives more than one: comma, semicolon or tab.
absl::StatusOr<Rows> ReadCsvTable(const std::string& path);

}  // namespace dp::data
