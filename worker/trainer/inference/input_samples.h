#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model/shape.h"
#include "dp/v1/job_spec.pb.h"
#include "worker/engine/data/array_dataset.h"

namespace dp::trainer {

// The samples that a model takes.
struct WantedSamples {
  model::Shape shape;  // empty: not known; the first input decides
  engine::Normalization normalization;
  v1::CsvSpec csv;  // of kind `csv`: which columns are inputs
};

// One sample of an input, ready for the model.
struct InputSample {
  int input = 0;       // number of the input
  int64_t number = 0;  // within the input
  std::vector<float> values;
};

struct InputSamples {
  model::Shape shape;
  std::vector<InputSample> samples;
};

// Reads inputs as training reads its data:
//
// - a PNG or JPEG image is resized, its middle cut out, and its bytes divided by 255;
// - an array (.npy, or a.npz#NAME) or IDX file is one sample, or many along its first axis. Arrays
// of
//   rows and columns are images of one channel, if the model takes these;
// - a CSV file is a sample for each line. Its names choose the columns; without names, or with
//   others, it has the model's columns and no more;
// - numbers with commas between them are a sample.
//
// All are normalized. Errors: those of the files' readers; InvalidArgument names the input and what
// does not fit.
absl::StatusOr<InputSamples> ReadInputs(const std::vector<std::string>& inputs,
                                        const WantedSamples& wanted);

}  // namespace dp::trainer
