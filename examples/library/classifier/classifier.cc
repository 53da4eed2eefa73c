// Trains a convolutional network, which dp computes, to say in which quarter of a picture a bright
// spot is.
//
//   dpctl run --local --nproc-per-node 2 -- classifier
//   classifier file:///PATH WORLD_SIZE RANK

#include <dp/ddp.h>
#include <dp/engine.h>
#include <dp/sampler.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <vector>

constexpr int kSide = 12, kPixels = kSide * kSide, kSamples = 512, kBatch = 16, kEpochs = 6;

struct Pictures {
  std::vector<float> pixels;
  std::vector<int32_t> quarters;  // of the spots: 0 is at the top left, 3 at the bottom right
};

// Noise, and a spot of 3 x 3 pixels. The same on every rank.
Pictures Draw(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise(0, 0.5f);
  std::uniform_int_distribution<int> quarter(0, 3), place(0, kSide / 2 - 3);
  Pictures drawn;
  for (int i = 0; i < count; ++i) {
    std::vector<float> picture(kPixels);
    for (float& pixel : picture) pixel = noise(random);
    const int q = quarter(random);
    const int top = q / 2 * kSide / 2 + place(random), left = q % 2 * kSide / 2 + place(random);
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) picture[(top + r) * kSide + left + c] += 1.5f;
    drawn.pixels.insert(drawn.pixels.end(), picture.begin(), picture.end());
    drawn.quarters.push_back(q);
  }
  return drawn;
}

// The pictures of these numbers.
Pictures Pick(const Pictures& from, std::span<const int64_t> samples) {
  Pictures picked;
  for (const int64_t s : samples) {
    const auto first = from.pixels.begin() + s * kPixels;
    picked.pixels.insert(picked.pixels.end(), first, first + kPixels);
    picked.quarters.push_back(from.quarters[s]);
  }
  return picked;
}

int main(int argc, char** argv) try {
  dp::InitOptions options;
  if (argc == 4) {
    options.init_method = argv[1];
    options.world_size = std::atoi(argv[2]);
    options.rank = std::atoi(argv[3]);
  }
  dp::init_process_group(options);
  using namespace dp::model;
  dp::Network network({{"conv", Conv2d{.out = 8, .kernel = 3, .padding = 1}},
                       {"", Relu{}},
                       {"", MaxPool2d{.kernel = 2}},
                       {"", Flatten{}},
                       {"head", Linear{.out = 4}}},
                      {.input = {1, kSide, kSide}, .batch_size = kBatch});
  dp::DistributedDataParallel ddp(network);
  dp::AdamW optimizer(network, {.learning_rate = 0.01});

  const Pictures pictures = Draw(kSamples, 1);
  dp::DistributedSampler sampler(kSamples);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    const std::span<const int64_t> samples = sampler.indices();
    for (size_t i = 0; i < samples.size(); i += kBatch) {
      const Pictures batch =
          Pick(pictures, samples.subspan(i, std::min<size_t>(kBatch, samples.size() - i)));
      ddp.zero_grad();
      ddp.begin_forward();
      network.forward(batch.pixels, batch.quarters);
      network.backward([&](size_t parameter) { ddp.gradient_ready(parameter); });
      ddp.finish_backward();
      optimizer.step();
    }
  }
  const Pictures unseen = Draw(kBatch, 2);
  const dp::Score score = network.evaluate(unseen.pixels, unseen.quarters);
  std::printf("rank %d of %d: %d of %d unseen pictures are right\n", dp::get_rank(),
              dp::get_world_size(), int(score.correct), kBatch);
  dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::fprintf(stderr, "classifier: %s\n", error.what());
  return 1;
}
