#include <dp/distributed.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

// Fits y = 2 x + 1. Each rank has a share of the 64 samples.
int main(int argc, char** argv) try {
  dp::InitOptions options;  // env://, whose variables dpctl run and torchrun set
  if (argc == 4) {          // train file:///PATH WORLD_SIZE RANK
    options.init_method = argv[1];
    options.world_size = std::atoi(argv[2]);
    options.rank = std::atoi(argv[3]);
  }
  dp::init_process_group(options);
  const int rank = dp::get_rank(), size = dp::get_world_size(), samples = 64;

  std::vector<float> weights = {float(rank), 0};  // slope and intercept
  dp::broadcast(weights, 0);                      // every rank begins with those of rank 0
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradient = {0, 0};
    for (int i = rank; i < samples; i += size) {
      const float x = 2.0f * i / samples - 1;
      const float error = weights[0] * x + weights[1] - (2 * x + 1);
      gradient[0] += error * x;
      gradient[1] += error;
    }
    dp::all_reduce(gradient);  // the sum over the samples of all ranks
    for (int w = 0; w < 2; ++w) weights[w] -= gradient[w] / samples;
  }
  std::printf("rank %d of %d: y = %.3f x + %.3f\n", rank, size, weights[0], weights[1]);
  dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::fprintf(stderr, "train: %s\n", error.what());
  return 1;
}
