#include "worker/engine/device/cuda/network/cuda_data_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;

LayerProgram OfImages() {
  return PlanLayers(
      *model::CheckShapes({{"", model::Flatten{}}, {"", model::Linear{.out = 3}}}, {1, 1, 2}),
      {.network = {.batch_size = 3}});
}

LayerProgram OfTokens() {
  return PlanLayers(*model::CheckLanguageModel(
                        {{"", model::Embedding{.features = 4}}, {"", model::Linear{.out = 5}}},
                        /*tokens=*/2, /*vocabulary=*/5),
                    {.network = {.batch_size = 2}});
}

template <typename T>
std::vector<T> PartAt(const std::vector<char>& block, int64_t offset, size_t size) {
  std::vector<T> values(size);
  std::memcpy(values.data(), block.data() + offset, size * sizeof(T));
  return values;
}

TEST(CudaDataBlockTest, ItsPartsLieApartWithWhatIsAlwaysToldFirst) {
  const BatchBlock place = PlanBatchBlock(OfImages());
  EXPECT_EQ(place.step, 0);
  EXPECT_EQ(place.samples, 256);
  EXPECT_EQ(place.labels, 512);
  EXPECT_EQ(place.input, 768);
  EXPECT_EQ(place.bytes, 1024);
  EXPECT_EQ(place.told_bytes(), 512);
}

TEST(CudaDataBlockTest, PaddingIsZeroWhateverTheBatchHolds) {
  const LayerProgram program = OfImages();
  const BatchBlock place = PlanBatchBlock(program);
  std::vector<char> block(place.bytes, 1);
  const std::vector<float> images = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> labels = {2, 1, -1};
  const std::vector<int64_t> samples = {7, 8, 9};
  FillBatchBlock(program, place, {images, labels, samples, 2}, block.data());
  EXPECT_THAT(PartAt<int64_t>(block, place.samples, 3), ElementsAre(7, 8, 0));
  EXPECT_THAT(PartAt<int32_t>(block, place.labels, 3), ElementsAre(2, 1, 0));
  EXPECT_THAT(PartAt<float>(block, place.input, 6), ElementsAre(1, 2, 3, 4, 0, 0));
}

TEST(CudaDataBlockTest, TargetsLieInThePlaceOfLabels) {
  const LayerProgram program = PlanLayers(
      *model::CheckShapes({{"", model::Flatten{}}, {"", model::Linear{.out = 2}}}, {1, 1, 2}),
      {.network = {.batch_size = 3, .loss = MseLoss()}});
  const BatchBlock place = PlanBatchBlock(program);
  std::vector<char> block(place.bytes, 1);
  const std::vector<float> images = {1, 2, 3, 4, 5, 6}, targets = {.1f, .2f, .3f, .4f, .5f, .6f};
  const std::vector<int64_t> samples = {7, 8, 9};
  FillBatchBlock(program, place,
                 {.images = images, .samples = samples, .count = 2, .targets = targets},
                 block.data());
  EXPECT_THAT(PartAt<float>(block, place.labels, 6), ElementsAre(.1f, .2f, .3f, .4f, 0, 0));
  EXPECT_THAT(PartAt<float>(block, place.input, 6), ElementsAre(1, 2, 3, 4, 0, 0));
}

TEST(CudaDataBlockTest, TokensBecomeWholeNumbers) {
  const LayerProgram program = OfTokens();
  const BatchBlock place = PlanBatchBlock(program);
  std::vector<char> block(place.bytes, 1);
  const std::vector<float> tokens = {4, 0, -9, 77};
  const std::vector<int32_t> labels = {0, 3, -1, -1};
  const std::vector<int64_t> samples = {7, 8};
  FillBatchBlock(program, place, {tokens, labels, samples, 1}, block.data());
  EXPECT_THAT(PartAt<int32_t>(block, place.input, 4), ElementsAre(4, 0, 0, 0));
  EXPECT_THAT(PartAt<int32_t>(block, place.labels, 4), ElementsAre(0, 3, 0, 0));
}

TEST(CudaDataBlockTest, ATokenBeyondTheVocabularyIsABug) {
  const LayerProgram program = OfTokens();
  const BatchBlock place = PlanBatchBlock(program);
  std::vector<char> block(place.bytes);
  const std::vector<float> tokens = {4, 5};
  const std::vector<int32_t> labels = {0, 3};
  const std::vector<int64_t> samples = {7};
  EXPECT_DEATH(FillBatchBlock(program, place, {tokens, labels, samples, 1}, block.data()), "");
}

}  // namespace
}  // namespace dp::engine::cuda
