#include "worker/trainer/inference/data_places.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/job/data_check.h"

namespace dp::trainer {
namespace {

bool IsDirectory(const v1::DataSpec& data) {
  return data.kind().empty() || data.kind() == "images" || data.kind() == "cifar10" ||
         data.kind() == "cifar100" || data.kind() == "imageFolder";
}

absl::Status Superfluous(const char* flag, const v1::DataSpec& data) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " does not go with a model of data of kind ",
                                                 data.kind(), "; leave it out"));
}

absl::Status Missing(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("nothing says where the test set is; give ", what));
}

// A list of one file.
void TestOn(const std::string& file, v1::DataSpec& data) {
  data.clear_train();
  data.clear_test();
  data.add_test(file);
  data.clear_validation();
}

absl::Status TakeArrays(const v1::DataPlaces& places, v1::DataSpec& data) {
  const bool answers = !places.labels().empty() || !places.targets().empty();
  if (places.data().empty() && !answers) {
    if (data.has_arrays()) return absl::OkStatus();
    return Missing("its NPY files with --data, and --labels or --targets");
  }
  if (places.data().empty() || !answers) {
    return absl::InvalidArgumentError(
        "--data is the inputs, and --labels or --targets the answers; give both");
  }
  v1::ArrayFilesSpec& test = *data.mutable_arrays()->mutable_test();
  test.Clear();
  test.set_inputs(places.data());
  test.set_labels(places.labels());
  test.set_targets(places.targets());
  data.clear_validation();
  return absl::OkStatus();
}

// The description of a model says that texts have an encoding, and not where its files are.
absl::Status TakeEncoding(const v1::DataPlaces& places, v1::DataSpec& data) {
  const bool given = !places.bpe_vocab().empty() || !places.bpe_merges().empty();
  if (!data.has_bpe()) {
    return given ? Superfluous("--bpe-vocab", data) : absl::OkStatus();
  }
  v1::BpeSpec& bpe = *data.mutable_bpe();
  if (given) {
    bpe.set_vocab(places.bpe_vocab());
    bpe.set_merges(places.bpe_merges());
  }
  if (!bpe.vocab().empty() && !bpe.merges().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the tokens of the model are not bytes; give the files of their encoding with --bpe-vocab "
      "and "
      "--bpe-merges");
}

absl::Status TakeTest(const v1::DataPlaces& places, v1::DataSpec& data) {
  const std::string& place = places.data();
  if (data.kind() == "synthetic") {
    return place.empty() ? absl::OkStatus() : Superfluous("--data", data);
  }
  if (IsDirectory(data)) {
    if (!place.empty()) data.set_dir(place);
    return data.dir().empty() ? Missing("its directory with --data") : absl::OkStatus();
  }
  if (!place.empty()) TestOn(place, data);
  return data.test().empty() && data.train().empty() ? Missing("its file with --data")
                                                     : absl::OkStatus();
}

}  // namespace

absl::Status TakePlaces(const v1::DataPlaces& places, v1::DataSpec& data) {
  DP_RETURN_IF_ERROR(TakeEncoding(places, data));
  if (data.kind() == "arrays") return TakeArrays(places, data);
  if (!places.labels().empty()) return Superfluous("--labels", data);
  if (!places.targets().empty()) return Superfluous("--targets", data);
  return TakeTest(places, data);
}

}  // namespace dp::trainer
