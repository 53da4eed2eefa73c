#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/recognize.h"
#include "base/model/shape.h"

namespace dp::data {

// The contents of a file or directory, and how a job reads them.
struct Description {
  Format format = Format::kText;
  std::string element_type;           // NumPy's name; empty for texts
  int64_t samples = 0;                // tokens of a text
  int64_t test_samples = 0;           // 0: there is no test set
  model::Shape shape;                 // of a sample; empty for texts
  std::vector<std::string> classes;   // names of folders, or numbers; empty without labels
  std::vector<int64_t> class_counts;  // samples of each class
  std::vector<double> mean;           // of each channel; bytes count as a 255th
  std::vector<double> std;
  int64_t measured = 0;  // samples that mean and std are of
  // The lines of train.data, without indentation. A place that only the user knows is a word in
  // capital letters.
  std::vector<std::string> job_lines;
};

// Reads all samples of `path`; of a folder of images at most 1,000, evenly spaced.
// Errors: those of Recognize and of the format's reader.
absl::StatusOr<Description> Describe(const std::string& path);

}  // namespace dp::data
