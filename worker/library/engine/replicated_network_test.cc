#include <cmath>
#include <span>
#include <vector>

#include "dp/ddp.h"
#include "dp/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/rank_threads.h"

// DistributedDataParallel over networks that dp computes. The ranks are threads.

namespace dp::distributed {
namespace {

using library::OnRanks;
using model::Conv2d;
using model::Flatten;
using model::Linear;
using model::MaxPool2d;
using model::Relu;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int kRanks = 2, kBatch = 8, kSteps = 5;
constexpr size_t kPixels = 64;

Network Classifier(int batch_size, uint64_t seed) {
  return Network({{"", Conv2d{.out = 4, .kernel = 3, .padding = 1}},
                  {"", Relu{}},
                  {"", MaxPool2d{.kernel = 2}},
                  {"", Flatten{}},
                  {"", Linear{.out = 3}}},
                 {.input = {1, 8, 8}, .batch_size = batch_size, .seed = seed, .threads = 1});
}

// The same numbers on every rank.
std::vector<float> Images(int step) {
  std::vector<float> images(kBatch * kPixels);
  for (size_t i = 0; i < images.size(); ++i) images[i] = std::sin(float(i) * 0.7f + float(step));
  return images;
}
std::vector<int32_t> Labels(int step) {
  std::vector<int32_t> labels(kBatch);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = int32_t(i * 7 + size_t(step)) % 3;
  return labels;
}

std::vector<float> ValuesOf(Network& network) {
  std::vector<float> values;
  for (const Parameter& parameter : network.parameters()) {
    const std::span one(static_cast<float*>(parameter.values.data), parameter.values.count);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

TEST(ReplicatedNetworkTest, RanksTrainAsOneNetworkOnTheWholeBatch) {
  Network alone = Classifier(kBatch, /*seed=*/0);
  Sgd optimizer(alone, {.learning_rate = 0.1, .momentum = 0.9});
  for (int step = 0; step < kSteps; ++step) {
    alone.zero_grad();
    alone.forward(Images(step), Labels(step));
    alone.backward();
    optimizer.step();
  }
  std::vector<std::vector<float>> trained(kRanks);
  OnRanks(kRanks, "auto", [&](const ProcessGroup& group) {
    const auto rank = static_cast<size_t>(group.rank());
    constexpr size_t kShare = kBatch / kRanks;
    Network network = Classifier(kShare, /*seed=*/rank);
    DistributedDataParallel ddp(network, {.process_group = group});
    Sgd sgd(network, {.learning_rate = 0.1, .momentum = 0.9});
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> images = Images(step);
      const std::vector<int32_t> labels = Labels(step);
      ddp.zero_grad();
      ddp.begin_forward();
      network.forward(std::span(images).subspan(rank * kShare * kPixels, kShare * kPixels),
                      std::span(labels).subspan(rank * kShare, kShare));
      network.backward([&](size_t parameter) { ddp.gradient_ready(parameter); });
      ddp.finish_backward();
      sgd.step();
    }
    trained[rank] = ValuesOf(network);
  });
  EXPECT_EQ(trained[1], trained[0]);
  EXPECT_THAT(trained[0], Pointwise(FloatNear(1e-6f), ValuesOf(alone)));
}

}  // namespace
}  // namespace dp::distributed
