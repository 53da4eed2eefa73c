#include <dp/distributed.h>
#include <dp/sampler.h>
#include <dp/spawn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// Fits y = 2 x + 1 in processes that it starts by itself, as many as its argument says. Each
// rank takes its share of the 64 samples, in a new order every epoch.

constexpr int kSamples = 64, kBatch = 8, kEpochs = 40;

float X(int64_t sample) { return 2.0f * float(sample) / kSamples - 1; }
float Y(int64_t sample) { return 2 * X(sample) + 1; }

// Takes a step over samples `begin` to `end` of this rank, and those of the other ranks.
void Step(std::vector<float>& weights, const std::vector<int64_t>& samples, size_t begin,
          size_t end) {
  std::vector<float> sums = {0, 0, float(end - begin)};  // of the gradients and of the samples
  for (size_t i = begin; i < end; ++i) {
    const float x = X(samples[i]);
    const float error = weights[0] * x + weights[1] - Y(samples[i]);
    sums[0] += error * x;
    sums[1] += error;
  }
  dp::all_reduce(sums);
  for (int w = 0; w < 2; ++w) weights[w] -= sums[w] / sums[2];
}

void Train(int rank) {
  dp::init_process_group();
  std::vector<float> weights = {0, 0};  // slope and intercept
  dp::DistributedSampler sampler(kSamples, {.seed = 7});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    const std::vector<int64_t>& samples = sampler.indices();
    for (size_t begin = 0; begin < samples.size(); begin += kBatch)
      Step(weights, samples, begin, std::min(begin + kBatch, samples.size()));
  }
  std::printf("rank %d of %d: y = %.3f x + %.3f\n", rank, dp::get_world_size(), weights[0],
              weights[1]);
  dp::destroy_process_group();
}

int main(int argc, char** argv) try {
  dp::spawn(Train, argc > 1 ? std::atoi(argv[1]) : 2);
} catch (const dp::DistError& error) {
  std::fprintf(stderr, "spawned: %s\n", error.what());
  return 1;
}
