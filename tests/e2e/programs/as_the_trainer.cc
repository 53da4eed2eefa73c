// A training job as a program of a user: the same data, layers, seeds and optimizer. The arguments
// are the directory of the data and the file to which rank 0 writes the values of all parameters.
#include <dp/ddp.h>
#include <dp/engine.h>
#include <dp/sampler.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr size_t kPixels = 28 * 28, kBatch = 12;
constexpr uint64_t kSeed = 5;

std::vector<uint8_t> Read(const std::string& path, size_t header) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return bytes;
}

}  // namespace

int main(int, char** argv) try {
  dp::init_process_group();
  const std::string data = argv[1];
  const std::vector<uint8_t> images = Read(data + "/train-images-idx3-ubyte", 16),
                             labels = Read(data + "/train-labels-idx1-ubyte", 8);
  using namespace dp::model;
  dp::Network network(
      {{"", Flatten{}}, {"", Linear{.out = 30}}, {"", Relu{}}, {"head", Linear{.out = 10}}},
      {.input = {1, 28, 28}, .batch_size = kBatch, .seed = kSeed, .threads = 1});
  dp::DistributedDataParallel ddp(network);
  dp::Sgd optimizer(network, {.learning_rate = 0.1, .momentum = 0.9});
  dp::DistributedSampler sampler(static_cast<int64_t>(labels.size()), {.seed = kSeed});
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    sampler.set_epoch(epoch);
    const std::span<const int64_t> mine = sampler.indices();
    for (size_t begin = 0; begin < mine.size(); begin += kBatch) {
      std::vector<float> inputs;
      std::vector<int32_t> wanted;
      for (const int64_t sample : mine.subspan(begin, kBatch)) {
        const auto at = static_cast<size_t>(sample);
        for (size_t i = at * kPixels; i < (at + 1) * kPixels; ++i)
          inputs.push_back(static_cast<float>(images[i]) / 255.0f);
        wanted.push_back(labels[at]);
      }
      ddp.zero_grad();
      ddp.begin_forward();
      network.forward(inputs, wanted);
      network.backward([&](size_t parameter) { ddp.gradient_ready(parameter); });
      ddp.finish_backward();
      optimizer.step();
    }
  }
  if (dp::get_rank() == 0) {
    std::ofstream file(argv[2], std::ios::binary);
    for (const dp::Parameter& parameter : network.parameters())
      file.write(static_cast<const char*>(parameter.values.data),
                 static_cast<std::streamsize>(parameter.values.bytes));
  }
  dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
