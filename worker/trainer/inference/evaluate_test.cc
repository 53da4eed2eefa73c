#include "worker/trainer/inference/evaluate.h"

#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/sha256.h"
#include "worker/trainer/model/evaluation.h"
#include "worker/trainer/testing/trained_files.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

constexpr char kFlowers[] = R"(
  global_batch_size: 7 epochs: 3
  data { kind: "csv" train: "$/train.csv" test: "$/test.csv" csv { labels: "kind" } mean: 0.5 std: 2 }
  model { layers { linear { out: 8 } } layers { relu {} } layers { linear {} } }
  optimizer { sgd { learning_rate: 0.1 } })";

std::string Flowers(int count) {
  std::string text = "long,wide,kind\n";
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, i * 7 % 11, ".5,", i * 5 % 13, ",", i % 3, "\n");
  }
  return text;
}

class EvaluateTest : public ::testing::Test {
 protected:
  static void WriteData(const TrainedFiles& files) {
    files.WriteText("train.csv", Flowers(30));
    files.WriteText("test.csv", Flowers(23));
  }

  // The evaluation of a training of so many ranks with the same weights.
  static Evaluation OfTraining(TrainedFiles& files, int ranks) {
    std::vector<Evaluation> found(static_cast<size_t>(ranks));
    const int batch = EvaluationBatchOf(files.plan, files.sampler(), ranks);
    auto groups = engine::MakeLocalGroups(ranks);
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          RankModel model = *MakeRankModel(files.plan, *files.data.train, files.rows());
          found[rank] = *Evaluate(model, *files.data.test, batch, *groups[rank]);
        });
      }
    }
    return found[0];
  }

  static v1::EvaluateRequest Asking(const TrainedFiles& files) {
    v1::EvaluateRequest request;
    *request.mutable_weights() = files.weights();
    request.mutable_places()->set_data(files.File("test.csv"));
    return request;
  }
};

TEST_F(EvaluateTest, TheFileAloneGivesTheBitsOfTheTraining) {
  for (const int ranks : {1, 2, 3}) {
    TrainedFiles files(kFlowers, ranks);
    WriteData(files);
    files.Write();
    const Evaluation expected = OfTraining(files, ranks);
    const auto response = EvaluateTrained(Asking(files));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->loss(), expected.loss) << ranks;
    EXPECT_EQ(response->accuracy(), expected.accuracy);
    EXPECT_EQ(response->samples(), 23);
    EXPECT_EQ(response->precision(), "float32");
  }
}

TEST_F(EvaluateTest, AJobEvaluatesOnItsOwnTestSet) {
  TrainedFiles files(kFlowers);
  WriteData(files);
  files.Write(/*described=*/false);
  v1::EvaluateRequest request = Asking(files);
  request.clear_places();
  EXPECT_THAT(EvaluateTrained(request).status().message(),
              HasSubstr("does not say which model it has"));
  *request.mutable_weights()->mutable_job() = files.job;
  const auto response = EvaluateTrained(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->loss(), OfTraining(files, 1).loss);
}

TEST_F(EvaluateTest, TheFilesColumnsAreFoundByTheirNames) {
  TrainedFiles files(kFlowers);
  WriteData(files);
  files.Write();
  const double loss = EvaluateTrained(Asking(files))->loss();
  files.WriteText("other.csv", "kind,wide,long\n0,1,0.5\n");
  files.WriteText("same.csv", "long,wide,kind\n0.5,1,0\n");
  v1::EvaluateRequest request = Asking(files);
  request.mutable_places()->set_data(files.File("other.csv"));
  const auto other = EvaluateTrained(request);
  ASSERT_TRUE(other.ok()) << other.status();
  request.mutable_places()->set_data(files.File("same.csv"));
  EXPECT_EQ(other->loss(), EvaluateTrained(request)->loss());
  EXPECT_NE(other->loss(), loss);
}

TEST_F(EvaluateTest, AModelWithAPlugInNeedsTheCallersWord) {
  TrainedFiles files(kFlowers);
  WriteData(files);
  files.Write();
  v1::EvaluateRequest request = Asking(files);
  *request.mutable_weights()->mutable_job() = files.job;
  v1::ModelSpec& model =
      *request.mutable_weights()->mutable_job()->mutable_train()->mutable_model();
  model.mutable_layers(1)->mutable_plugin()->set_library("/l.so");
  EXPECT_THAT(EvaluateTrained(request).status().message(),
              HasSubstr("the model has a layer of the plug-in /l.so"));
  request.mutable_weights()->set_load_plugins(true);
  EXPECT_THAT(EvaluateTrained(request).status().message(),
              HasSubstr("plug-in library '/l.so' is not on this host"));
}

TEST_F(EvaluateTest, AHashThatDiffersIsRefused) {
  TrainedFiles files(kFlowers);
  WriteData(files);
  files.Write();
  v1::EvaluateRequest request = Asking(files);
  request.mutable_weights()->set_sha256(std::string(64, '0'));
  EXPECT_TRUE(absl::IsDataLoss(EvaluateTrained(request).status()));
}

TEST_F(EvaluateTest, WeightsOfAnotherModelAreRefusedByTheirTensor) {
  TrainedFiles files(kFlowers);
  WriteData(files);
  files.Write();
  v1::EvaluateRequest request = Asking(files);
  *request.mutable_weights()->mutable_job() = files.job;
  request.mutable_weights()
      ->mutable_job()
      ->mutable_train()
      ->mutable_model()
      ->mutable_layers(0)
      ->mutable_linear()
      ->set_out(9);
  EXPECT_THAT(EvaluateTrained(request).status().message(),
              HasSubstr("tensor 'linear2.weight' is 10x8, but the model's is 10x9; the weights are "
                        "of another model"));
}

TEST_F(EvaluateTest, ATestSetOfAnotherShapeOrWithoutAPlaceIsRefused) {
  TrainedFiles files(kFlowers);
  WriteData(files);
  files.Write();
  v1::EvaluateRequest request = Asking(files);
  request.clear_places();
  EXPECT_THAT(EvaluateTrained(request).status().message(),
              HasSubstr("nothing says where the test set is; give its file with --data"));
  request = Asking(files);
  request.mutable_places()->set_labels("/l.npy");
  EXPECT_THAT(EvaluateTrained(request).status().message(),
              HasSubstr("--labels does not go with a model of data of kind csv"));
  files.WriteText("test.csv", "long,wide,kind\n1,2,12\n");
  EXPECT_THAT(EvaluateTrained(Asking(files)).status().message(),
              HasSubstr("the test has labels up to 12, but the model gives 10 values"));
}

// Evaluations of the training take the average, which a checkpoint has beside the weights.
TEST_F(EvaluateTest, ACheckpointGivesTheAverageWhereTheTrainingTakesIt) {
  TrainedFiles files(kFlowers);
  files.job.mutable_train()->mutable_ema()->set_decay(0.9);
  WriteData(files);
  files.Write();
  const auto values = *engine::ReadArray(*files.model.device, files.model.values->span());
  TrainingState state{
      .values = std::vector<float>(values.size()),
      .optimizer = {{"velocity", std::vector<float>(values.size())}, {"ema", values}},
      .description = MetadataOf(DescribeTraining(files.job, *files.data.train, 1))};
  std::filesystem::create_directory(files.File("job"));
  const auto written = WriteCheckpoint(files.File("job"), state, files.model.layout);
  ASSERT_TRUE(written.ok()) << written.status();
  v1::EvaluateRequest request = Asking(files);
  const double of_average = EvaluateTrained(request)->loss();
  request.mutable_weights()->set_path(written->path);
  request.mutable_weights()->set_sha256(written->sha256);
  const auto response = EvaluateTrained(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->loss(), of_average);
  request.mutable_weights()->clear_sha256();
  *request.mutable_weights()->mutable_job() = files.job;
  request.mutable_weights()->mutable_job()->mutable_train()->mutable_ema()->set_evaluate(false);
  EXPECT_NE(EvaluateTrained(request)->loss(), of_average);
}

}  // namespace
}  // namespace dp::trainer
