#include "proto/job/data_check.h"

#include "absl/strings/str_cat.h"
#include "proto/job/data_source.h"
#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& overrides,
                    const FormOfSamples& form = Image28) {
  return std::string(CheckJob(Parsed(kMinimal, overrides), form).message());
}

TEST(DataCheckTest, MeanAndDeviationAreOneNumberOrOneForEachChannel) {
  const auto data = [](const std::vector<std::string>& overrides) {
    return Parsed(kMinimal, overrides).spec.train().data();
  };
  EXPECT_THAT(data({}).mean(), ElementsAre(0));
  EXPECT_THAT(data({}).std(), ElementsAre(1));
  EXPECT_THAT(data({"train.data.mean=0.5"}).mean(), ElementsAre(0.5));
  EXPECT_THAT(data({"train.data.mean=[0.1, 0.2, 0.3]"}).mean(), ElementsAre(0.1, 0.2, 0.3));
  EXPECT_THAT(ErrorOf({"train.data.std=[1, -2]"}),
              HasSubstr("train.data.std[1] is -2; expected more than 0"));
}

TEST(DataCheckTest, AnEncodingHasTwoFilesAndIsOfTexts) {
  const auto error = [](const std::string& kind, const std::string& bpe) {
    return ErrorOf({"train.model={preset: gpt}",
                    "train.data={kind: " + kind + ", train: [/a], context: 8, bpe: " + bpe + "}"});
  };
  EXPECT_EQ(error("text", "{vocab: /v, merges: /m}"), "");
  EXPECT_THAT(error("text", "{vocab: /v}"), HasSubstr("train.data.bpe has not both files; give"));
  EXPECT_THAT(error("text", "{vocab: v, merges: /m}"), HasSubstr("train.data.bpe.vocab is"));
  EXPECT_THAT(error("tokens", "{vocab: /v, merges: /m}"),
              HasSubstr("train.data.bpe does not go with kind: tokens"));
}

TEST(DataCheckTest, OneNumberHasTheBytesOfASingleField) {
  v1::DataSpec data;
  data.add_mean(0.5);
  // Field 2 as eight bytes; a packed list would begin with 0x12.
  EXPECT_EQ(data.SerializeAsString().substr(0, 1), "\x11");
}

TEST(DataCheckTest, FieldsOfOtherKindsAreRejected) {
  for (const std::string kind : {"images", "cifar10", "cifar100"}) {
    EXPECT_EQ(
        ErrorOf({"train.data.kind=" + kind}, [](const v1::DataSpec&) { return std::nullopt; }), "");
    EXPECT_THAT(ErrorOf({"train.data.kind=" + kind, "train.data.context=7"}),
                HasSubstr(absl::StrCat("train.data.context does not go with kind: ", kind)));
  }
  EXPECT_THAT(ErrorOf({"train.data={kind: text, train: [/a], context: 8, classes: 3}"}),
              HasSubstr("train.data.classes does not go with kind: text; leave it out"));
  EXPECT_THAT(ErrorOf({"train.data={kind: cifar10}"}),
              HasSubstr("train.data.dir is missing; give the directory of the binary files"));
  EXPECT_THAT(ErrorOf({"train.data.classes=-1"}), HasSubstr("is -1; expected 0 to 16777216"));
}

TEST(DataCheckTest, TheModelSaysWhetherArraysOfTwoAxesAreImages) {
  v1::ModelSpec model;
  EXPECT_FALSE(TakesTwoAxes(model));
  model.add_layers()->mutable_linear();  // takes either
  EXPECT_FALSE(TakesTwoAxes(model));
  model.add_layers()->mutable_attention();
  EXPECT_TRUE(TakesTwoAxes(model));
  model.mutable_layers(0)->mutable_flatten();
  EXPECT_FALSE(TakesTwoAxes(model));
  model.mutable_layers(0)->mutable_conv1d();
  EXPECT_TRUE(TakesTwoAxes(model));
  model.mutable_layers(0)->mutable_conv2d();
  EXPECT_FALSE(TakesTwoAxes(model));
  const auto rows = [](const v1::DataSpec&) {
    return SampleForm{.shape = {1, 16, 6}, .classes = 10, .two_axes = true};
  };
  const std::string end = "kernel: 3}}, {flatten: {}}, {linear: {}}]}";
  EXPECT_EQ(ErrorOf({"train.model={layers: [{conv1d: {out: 4, " + end}, rows), "");
  EXPECT_EQ(ErrorOf({"train.model={layers: [{conv2d: {out: 4, " + end}, rows), "");
}

TEST(DataCheckTest, APresetGivesOneValueForEachClass) {
  const auto form = [](int classes) {
    return [classes](const v1::DataSpec&) {
      return SampleForm{.shape = {3, 32, 32}, .classes = classes};
    };
  };
  EXPECT_EQ(ErrorOf({}, form(100)), "");
  EXPECT_EQ(ErrorOf({}, form(7)), "");
  EXPECT_EQ(ErrorOf({"train.data.classes=7"}, form(7)), "");
}

TEST(DataCheckTest, AModelMayGiveMoreValuesThanTheLabelsShow) {
  const auto error = [](int out, const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {
        absl::StrCat("train.model={layers: [{flatten: {}}, {linear: {out: ", out, "}}]}")};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return ErrorOf(overrides);
  };
  EXPECT_EQ(error(12, {}), "");
  EXPECT_THAT(error(9, {}), HasSubstr("gives 9 features, but the data has 10 classes"));
  EXPECT_THAT(error(12, {"train.data.classes=11"}), HasSubstr("but the data has 11 classes"));
}

const FormOfSamples kUnseen = [](const v1::DataSpec&) { return std::nullopt; };

// The error of a job with such data; the fields in YAML's flow style.
std::string ErrorOfData(const std::string& data) {
  return ErrorOf({"train.data={" + data + "}"}, kUnseen);
}

TEST(DataCheckTest, ArraysHaveFilesAndATestSet) {
  const std::string train = "kind: arrays, arrays: {train: {inputs: /x.npy, labels: /y.npy}";
  EXPECT_EQ(ErrorOfData(train + "}, validation: 0.1"), "");
  EXPECT_EQ(ErrorOfData(train + ", test: {inputs: /x2.npy, labels: /a.npz#y}}"), "");
  EXPECT_THAT(ErrorOfData(train + "}"),
              HasSubstr("train.data.arrays.test is missing; give it, or"));
  EXPECT_THAT(ErrorOfData(train + ", test: {inputs: /x, labels: /y}}, validation: 0.1"),
              HasSubstr("validation does not go with train.data.arrays.test; keep one"));
  EXPECT_THAT(ErrorOfData(train + ", test: {inputs: /x, targets: /y}}"),
              HasSubstr("has labels where train has targets, or targets where train has labels"));
  EXPECT_THAT(ErrorOfData("kind: arrays, validation: 0.1"),
              HasSubstr("train.data.arrays.train.inputs is missing; give a file, as /d/x.npy"));
  EXPECT_THAT(ErrorOfData("kind: arrays, validation: 0.1, arrays: {train: {inputs: /x}}"),
              HasSubstr("arrays.train has neither labels nor targets; give labels for classes"));
  EXPECT_THAT(
      ErrorOfData("kind: arrays, validation: 0.1, arrays: {train: {inputs: x, labels: /y}}"),
      HasSubstr("train.data.arrays.train.inputs is \"x\"; expected an absolute path"));
}

TEST(DataCheckTest, ATableHasColumnsAndATestSet) {
  const std::string csv = "kind: csv, train: [/a.csv], ";
  EXPECT_EQ(ErrorOfData(csv + "validation: 0.1, csv: {labels: x}"), "");
  EXPECT_EQ(ErrorOfData(csv + "test: [/b.csv], csv: {labels: '0', delimiter: ';'}"), "");
  EXPECT_THAT(ErrorOfData(csv + "csv: {labels: x}"), HasSubstr("train.data.test is missing; give"));
  EXPECT_THAT(ErrorOfData(csv + "validation: 0.1"),
              HasSubstr("train.data.csv has neither labels nor targets"));
  EXPECT_THAT(ErrorOfData(csv + "validation: 0.1, csv: {labels: x, targets: [y]}"),
              HasSubstr("train.data.csv has both labels and targets"));
  EXPECT_THAT(ErrorOfData(csv + "validation: 0.1, csv: {labels: x, delimiter: ab}"),
              HasSubstr("train.data.csv.delimiter is no single character"));
  EXPECT_THAT(ErrorOfData(csv + "validation: 1, csv: {labels: x}"),
              HasSubstr("train.data.validation is 1; expected at least 0 and below 1"));
}

TEST(DataCheckTest, AColumnIsInputOrOutputOnce) {
  const auto error = [](const std::string& csv) {
    return ErrorOfData("kind: csv, train: [/a.csv], validation: 0.1, csv: {" + csv + "}");
  };
  EXPECT_EQ(error("labels: y, inputs: [a, b]"), "");
  EXPECT_THAT(error("labels: y, inputs: [a, y]"),
              HasSubstr("train.data.csv.inputs has \"y\", which is to be predicted; leave it out"));
  EXPECT_THAT(error("targets: [y, z], inputs: [a, z]"), HasSubstr("inputs has \"z\", which is"));
  EXPECT_THAT(error("labels: y, inputs: [a, a]"),
              HasSubstr("train.data.csv.inputs has \"a\" twice; keep one"));
  EXPECT_THAT(error("targets: [y, y]"), HasSubstr("train.data.csv.targets has \"y\" twice"));
}

TEST(DataCheckTest, TargetsAreNoClasses) {
  const std::string csv = "kind: csv, train: [/a.csv], validation: 0.1, csv: {targets: [x]}";
  EXPECT_EQ(ErrorOfData(csv), "");
  EXPECT_THAT(ErrorOfData(csv + ", classes: 3"),
              HasSubstr("train.data.classes does not go with targets"));
}

TEST(DataCheckTest, FoldersOfImagesHaveASize) {
  const std::string folder = "kind: imageFolder, dir: /d, ";
  EXPECT_EQ(ErrorOfData(folder + "size: [32, 48]"), "");
  EXPECT_EQ(
      Parsed(kMinimal, {"train.data={" + folder + "size: [8, 8]}"}).spec.train().data().channels(),
      3);
  EXPECT_THAT(ErrorOfData(folder + "size: [32]"),
              HasSubstr("train.data.size has 1 numbers; expected rows and columns"));
  EXPECT_THAT(ErrorOfData(folder + "size: [32, 0]"), HasSubstr("size[1] is 0; expected 1 to 8192"));
  EXPECT_THAT(ErrorOfData(folder + "size: [8, 8], channels: 2"),
              HasSubstr("train.data.channels is 2; expected 1 for gray, or 3"));
  EXPECT_THAT(ErrorOfData("kind: imageFolder, size: [8, 8]"),
              HasSubstr("train.data.dir is missing; give the directory of the folders of images"));
  EXPECT_THAT(ErrorOf({"train.data.size=[8, 8]"}), HasSubstr("size does not go with kind: images"));
}

TEST(DataCheckTest, ChangesOfImagesAreChecked) {
  const std::string folder = "kind: imageFolder, dir: /d, size: [8, 8], augment: ";
  EXPECT_EQ(ErrorOfData(folder + "{flip: true, crop: {padding: 4}, resizedCrop: {}}"), "");
  EXPECT_THAT(ErrorOfData(folder + "{crop: {padding: 0}}"),
              HasSubstr("train.data.augment.crop.padding is 0; expected 1 to 8192"));
  EXPECT_THAT(ErrorOfData(folder + "{resizedCrop: {areaMin: 2}}"),
              HasSubstr("resizedCrop.areaMin is 2; expected more than 0, at most 1"));
  EXPECT_THAT(ErrorOfData(folder + "{resizedCrop: {areaMin: 0}}"),
              HasSubstr("resizedCrop.areaMin is 0; expected more than 0"));
  EXPECT_THAT(ErrorOf({"train.data.augment={resizedCrop: {}}"}),
              HasSubstr("resizedCrop needs kind: imageFolder; use train.data.augment.crop"));
  EXPECT_THAT(ErrorOf({"train.data={kind: text, train: [/a], context: 8, augment: {flip: true}}"}),
              HasSubstr("train.data.augment does not go with kind: text"));
}

TEST(DataCheckTest, SyntheticSamplesHaveAShapeAndClasses) {
  const std::string synthetic = "kind: synthetic, classes: 4, synthetic: ";
  EXPECT_EQ(ErrorOfData(synthetic + "{shape: [1, 28, 28], samples: 100}"), "");
  const v1::DataSpec filled =
      Parsed(kMinimal, {"train.data={" + synthetic + "{shape: [5], samples: 100}}"})
          .spec.train()
          .data();
  EXPECT_EQ(filled.synthetic().test_samples(), 10);
  EXPECT_THAT(ErrorOfData(synthetic + "{shape: [5], samples: 100, testSamples: 0}"),
              HasSubstr("testSamples is 0; expected 1 to"));
  EXPECT_THAT(ErrorOfData(synthetic + "{samples: 100}"), HasSubstr("shape has 0 axes; expected 1"));
  EXPECT_THAT(ErrorOfData(synthetic + "{shape: [0], samples: 100}"), HasSubstr("shape[0] is 0;"));
  EXPECT_THAT(ErrorOfData(synthetic + "{shape: [65536, 65536], samples: 100}"),
              HasSubstr("shape has more than 268435456 elements"));
  EXPECT_THAT(ErrorOfData(synthetic + "{shape: [5]}"), HasSubstr("samples is 0; expected 1 to"));
  EXPECT_THAT(ErrorOfData("kind: synthetic, synthetic: {shape: [5], samples: 9}"),
              HasSubstr("train.data.classes is missing; give the classes"));
  EXPECT_THAT(ErrorOf({"train.data.prefetchThreads=300"}), HasSubstr("is 300; expected 0 to 256"));
}

}  // namespace
}  // namespace dp
