#include "proto/weights/trained_model.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

v1::JobSpec AJob(const std::string& more = "") {
  v1::JobSpec job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'digits' ranks: 2 threads_per_rank: 3 train { seed: 4 epochs: 9 global_batch_size: 64 "
      "model { layers { flatten {} } layers { name: 'last' linear { out: 10 } } } "
      "optimizer { sgd { learning_rate: 0.1 } } "
      "data { kind: 'images' dir: '/data/digits' mean: 0.5 std: 0.25 shuffle: true } } " +
          more,
      &job));
  return job;
}

TrainedOn Digits() { return {.form = {.shape = {1, 28, 28}, .classes = 10}, .ranks = 2}; }

TEST(TrainedModelTest, IsReadBackFromTheTextsBesideTheWeights) {
  const v1::TrainedModel model = DescribeModel(AJob(), Digits());
  const std::string file = EncodeSafetensors({}, {}, MetadataOf(model));
  const auto read = ModelIn(*ReadSafetensorsMetadata(file));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->SerializeAsString(), model.SerializeAsString());
  EXPECT_EQ((*read)->train().model().layers(1).name(), "last");
  EXPECT_EQ((*read)->sample_shape_size(), 3);
}

TEST(TrainedModelTest, NamesNoPlaceAndNothingOfTheTraining) {
  const v1::TrainedModel model = DescribeModel(AJob(), Digits());
  const std::string text = model.ShortDebugString();
  EXPECT_EQ(text.find("/data"), std::string::npos) << text;
  EXPECT_EQ(text.find("optimizer"), std::string::npos) << text;
  v1::JobSpec elsewhere = AJob();
  elsewhere.mutable_train()->mutable_data()->set_dir("/other");
  elsewhere.mutable_train()->set_epochs(1);
  EXPECT_EQ(DescribeModel(elsewhere, Digits()).SerializeAsString(), model.SerializeAsString());
}

TEST(TrainedModelTest, ItsJobHasTheModelItsNormalizationAndItsBatches) {
  const v1::JobSpec job = JobOf(DescribeModel(AJob(), Digits()));
  EXPECT_EQ(job.ranks(), 2);
  EXPECT_EQ(job.threads_per_rank(), 3);
  EXPECT_EQ(job.train().global_batch_size(), 64);
  EXPECT_EQ(job.train().data().mean(0), 0.5);
  EXPECT_EQ(job.train().seed(), 4u);
}

TEST(TrainedModelTest, TargetsWithoutALossAreOfTheSquaredError) {
  v1::JobSpec job = AJob();
  v1::DataSpec& data = *job.mutable_train()->mutable_data();
  data.set_kind("arrays");
  data.mutable_arrays()->mutable_train()->set_targets("/data/y.npy");
  EXPECT_TRUE(DescribeModel(job, {}).train().loss().has_mse());
}

TEST(TrainedModelTest, AFileOfAnotherProgramDescribesNone) {
  const auto model = ModelIn({{"format", "pt"}});
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE(model->has_value());
}

TEST(TrainedModelTest, ADamagedOneAndALaterFormatAreRefused) {
  EXPECT_EQ(ModelIn({{"dp.model", "{"}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ModelIn({{"dp.model", R"({"format": 2})"}}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(ModelIn({{"dp.model", R"({"format": 1, "later": 3})"}}).ok());
}

}  // namespace
}  // namespace dp
