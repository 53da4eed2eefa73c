#include "worker/trainer/inference/input_samples.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/data/csv_file.h"
#include "base/data/file_bytes.h"
#include "base/data/idx_file.h"
#include "base/data/image_codec.h"
#include "base/data/image_resize.h"
#include "base/data/npy_file.h"
#include "base/data/recognize.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

// More than an input for a look at a model has; `dpctl eval` takes sets of any size.
constexpr int64_t kInputFloatsMax = int64_t{1} << 31;

absl::Status WrongInput(const std::string& input, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(input, ": ", what));
}

bool IsImageFile(const std::string& path) {
  const auto file = data::OpenFile(path, 8);
  if (!file.ok() || file->bytes.size() < 4) return false;
  const absl::string_view begin(reinterpret_cast<const char*>(file->bytes.data()), 4);
  return begin == "\x89PNG" || absl::StartsWith(begin, "\xff\xd8");
}

// Numbers with commas between them; empty if the text is something else.
std::vector<float> NumbersOf(const std::string& text) {
  std::vector<float> numbers;
  for (const absl::string_view field : absl::StrSplit(text, ',')) {
    float number = 0;
    if (!absl::SimpleAtof(field, &number) || !std::isfinite(number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

class InputReader {
 public:
  explicit InputReader(const WantedSamples& wanted) : wanted_(wanted) {
    read_.shape = wanted.shape;
  }

  absl::Status Read(int number, const std::string& input) {
    number_ = number;
    std::error_code error;
    const std::string path = input.substr(0, input.find('#'));
    if (!std::filesystem::exists(path, error)) return ReadLine(input);
    if (IsImageFile(path)) return ReadImage(input);
    if (path != input) return ReadRows(input, data::ReadNpy(input));
    DP_ASSIGN_OR_RETURN(const data::Format format, data::Recognize(input));
    if (format == data::Format::kNpyFile) return ReadRows(input, data::ReadNpy(input));
    if (format == data::Format::kIdxFile) return ReadRows(input, data::ReadIdx(input));
    // A single column has no comma by which it is recognized.
    const bool table = format == data::Format::kCsvFile || absl::EndsWith(input, ".csv");
    if (table) return ReadTable(input);
    return WrongInput(input, absl::StrCat("is ", data::NameOf(format),
                                          "; give PNG, JPEG, NPY, IDX or CSV files"));
  }

  InputSamples Finish() && { return std::move(read_); }

 private:
  absl::Status Add(const std::string& input, int64_t sample, std::vector<float> values) {
    floats_ += static_cast<int64_t>(values.size());
    if (floats_ > kInputFloatsMax) {
      return WrongInput(input, absl::StrCat("the inputs have more than ", kInputFloatsMax,
                                            " numbers together; give fewer at once"));
    }
    engine::Normalize(wanted_.normalization, read_.shape[0], absl::MakeSpan(values));
    read_.samples.push_back({number_, sample, std::move(values)});
    return absl::OkStatus();
  }

  // The first input decides on a shape that nothing else tells.
  absl::Status TakeShape(const std::string& input, const model::Shape& shape) {
    if (read_.shape.empty()) read_.shape = shape;
    if (shape != read_.shape) {
      return WrongInput(input,
                        absl::StrCat("a sample has the shape ", model::ShapeText(shape),
                                     ", but the model takes ", model::ShapeText(read_.shape)));
    }
    const absl::Status fits = engine::CheckNormalization(wanted_.normalization, shape);
    return fits.ok() ? fits : WrongInput(input, fits.message());
  }

  absl::Status ReadLine(const std::string& input) {
    std::vector<float> numbers = NumbersOf(input);
    if (numbers.empty()) {
      return WrongInput(input, "is neither a file nor numbers with commas between them");
    }
    DP_RETURN_IF_ERROR(TakeShape(input, {static_cast<int64_t>(numbers.size())}));
    return Add(input, 0, std::move(numbers));
  }

  absl::Status ReadImage(const std::string& input) {
    const model::Shape& shape = read_.shape;
    const bool images = shape.size() == 3 && (shape[0] == 1 || shape[0] == 3);
    if (!images && !shape.empty()) {
      return WrongInput(input,
                        absl::StrCat("is an image, but the model takes samples of the shape ",
                                     model::ShapeText(shape)));
    }
    DP_ASSIGN_OR_RETURN(const data::Image image,
                        data::ReadImage(input, images ? static_cast<int>(shape[0]) : 3));
    if (shape.empty()) DP_RETURN_IF_ERROR(TakeShape(input, {3, image.rows, image.columns}));
    std::vector<float> values(static_cast<size_t>(model::ElementCount(shape)));
    data::ResizeInto(image, data::MiddleOf(image, shape[1], shape[2]), shape[1], shape[2],
                     absl::MakeSpan(values));
    for (float& value : values) value /= 255.0f;
    return Add(input, 0, std::move(values));
  }

  // The shape of a row as the model takes it: images of one channel have it in front.
  model::Shape ShapeOf(model::Shape shape) const {
    const bool gray = shape.size() == 2 && (read_.shape.empty() || read_.shape.size() == 3);
    if (gray) shape.insert(shape.begin(), 1);
    return shape;
  }

  absl::Status ReadRows(const std::string& input, const absl::StatusOr<data::Rows>& rows) {
    DP_RETURN_IF_ERROR(rows.status());
    model::Shape whole = rows->shape();
    whole.insert(whole.begin(), rows->size());
    // A vector's rows have one number each, which is no axis of its own.
    if (rows->shape() == model::Shape{1}) whole = {rows->size()};
    const bool one = !read_.shape.empty() && ShapeOf(rows->shape()) != read_.shape &&
                     ShapeOf(whole) == read_.shape;
    DP_RETURN_IF_ERROR(TakeShape(input, ShapeOf(one ? whole : rows->shape())));
    const auto elements = static_cast<size_t>(rows->elements());
    std::vector<float> values;
    for (int64_t row = 0; row < rows->size(); ++row) {
      const size_t first = one ? values.size() : 0;
      values.resize(first + elements);
      rows->Read(row, absl::MakeSpan(values).subspan(first));
      if (one && row + 1 < rows->size()) continue;
      if (rows->type() == data::ElementType::kUint8) {
        for (float& value : values) value /= 255.0f;
      }
      DP_RETURN_IF_ERROR(Add(input, one ? 0 : row, std::exchange(values, {})));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTable(const std::string& input) {
    data::CsvFiles files{.paths = {input}};
    DP_ASSIGN_OR_RETURN(files.delimiter, data::FindCsvDelimiter(input));
    DP_ASSIGN_OR_RETURN(const std::vector<std::string> columns, data::ReadCsvColumns(files));
    const auto& inputs = wanted_.csv.inputs();
    const bool named = absl::c_all_of(
        inputs, [&](const std::string& each) { return absl::c_linear_search(columns, each); });
    if (named) files.inputs = {inputs.begin(), inputs.end()};
    DP_ASSIGN_OR_RETURN(const data::SampleSet set, data::ReadCsvSet(files));
    return ReadRows(input, set.inputs);
  }

  const WantedSamples& wanted_;
  InputSamples read_;
  int number_ = 0;
  int64_t floats_ = 0;
};

}  // namespace

absl::StatusOr<InputSamples> ReadInputs(const std::vector<std::string>& inputs,
                                        const WantedSamples& wanted) {
  InputReader reader(wanted);
  for (size_t i = 0; i < inputs.size(); ++i) {
    DP_RETURN_IF_ERROR(reader.Read(static_cast<int>(i), inputs[i]));
  }
  return std::move(reader).Finish();
}

}  // namespace dp::trainer
