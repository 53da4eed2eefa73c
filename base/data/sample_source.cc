#include "base/data/sample_source.h"

#include "base/data/idx_file.h"
#include "base/overloaded.h"

namespace dp::data {

namespace {

absl::StatusOr<SampleSet> ReadTestTable(const CsvSource& files) {
  CsvFiles test = files.test;
  if (!files.train.paths.empty()) test.first = files.train.paths[0];
  return ReadCsvSet(test);
}

}  // namespace

absl::StatusOr<SampleSet> ReadSamples(const SampleSource& source, Split split) {
  const bool train = split == Split::kTrain;
  return std::visit(
      Overloaded{
          [&](const IdxSource& files) { return ReadIdxSet(files.dir, split); },
          [&](const CifarSource& files) { return ReadCifarSet(files.dir, files.kind, split); },
          [&](const ArraySource& files) { return ReadArraySet(train ? files.train : files.test); },
          [&](const CsvSource& files) {
            return train ? ReadCsvSet(files.train) : ReadTestTable(files);
          },
      },
      source);
}

}  // namespace dp::data
