// One rank of a training that train.py makes too, from the same weights on the same data:
//
//   train MODEL STEPS WEIGHTS [alone]
//
// MODEL is mlp or cnn. With `alone`, ranks train beside each other without DistributedDataParallel.
// Rank 0 writes its weights and buffers to WEIGHTS as floats. The last line that it prints is a
// JSON object with the milliseconds of a step, and with the libraries of the process.

#include <dp/libtorch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace {

constexpr int kSamples = 32, kClasses = 10, kWarmUp = 5;

torch::nn::Sequential Mlp() {
  torch::nn::Sequential layers;
  for (int layer = 0; layer < 3; ++layer) {
    layers->push_back(torch::nn::Linear(1024, 1024));
    layers->push_back(torch::nn::ReLU());
  }
  layers->push_back(torch::nn::Linear(1024, kClasses));
  return layers;
}

torch::nn::Sequential Cnn() {
  using torch::nn::Conv2dOptions;
  return torch::nn::Sequential(
      torch::nn::Conv2d(Conv2dOptions(1, 32, 3)), torch::nn::BatchNorm2d(32), torch::nn::ReLU(),
      torch::nn::MaxPool2d(2), torch::nn::Conv2d(Conv2dOptions(32, 64, 3)), torch::nn::ReLU(),
      torch::nn::MaxPool2d(2), torch::nn::Flatten(), torch::nn::Linear(1600, 128),
      torch::nn::ReLU(), torch::nn::Linear(128, kClasses));
}

// Values between -scale and scale without a pattern, which Python computes alike.
torch::Tensor Noise(const std::vector<int64_t>& shape, double scale, double phase) {
  int64_t count = 1;
  for (const int64_t axis : shape) count *= axis;
  const torch::Tensor waves = torch::arange(count, torch::kFloat).mul(12.9898).add(phase).sin();
  return ((waves * 43758.547).frac() * scale).reshape(shape);
}

void Initialize(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  double phase = 0;
  for (torch::Tensor& parameter : module.parameters())
    parameter.copy_(Noise(parameter.sizes().vec(), 0.05, phase++));
}

void Write(const torch::nn::Module& module, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&](const torch::Tensor& values) {
    const torch::Tensor floats = values.to(torch::kFloat).contiguous();
    file.write(static_cast<const char*>(floats.data_ptr()),
               static_cast<std::streamsize>(floats.nbytes()));
  };
  for (const torch::Tensor& parameter : module.parameters()) write(parameter.detach());
  for (const torch::Tensor& buffer : module.buffers()) write(buffer);
}

// The files that are mapped into this process and hold Gloo, Protocol Buffers or OpenMP.
std::string Libraries() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> found;
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    for (const char* name : {"libgloo", "libprotobuf", "libgomp", "libomp", "libiomp"})
      if (path.find(name) != std::string::npos) found.insert("\"" + path + "\"");
  }
  std::ostringstream list;
  for (const std::string& path : found) list << (list.tellp() > 0 ? ", " : "") << path;
  return list.str();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw std::runtime_error("usage: train mlp|cnn STEPS WEIGHTS [alone]");
  const bool alone = argc > 4;
  const bool mlp = std::string(argv[1]) == "mlp";
  const int steps = std::atoi(argv[2]);
  dp::init_process_group();
  const int rank = dp::get_rank();
  torch::nn::Sequential model = mlp ? Mlp() : Cnn();
  Initialize(*model);
  std::optional<dp::libtorch::DistributedDataParallel<torch::nn::SequentialImpl>> ddp;
  if (!alone) ddp.emplace(model);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const std::vector<int64_t> shape =
      mlp ? std::vector<int64_t>{kSamples, 1024} : std::vector<int64_t>{kSamples, 1, 28, 28};
  const torch::Tensor input = Noise(shape, 1, 0.5 + rank);
  const torch::Tensor labels = torch::arange(kSamples).add(rank).remainder(kClasses);

  const auto step = [&] {
    optimizer.zero_grad();
    const torch::Tensor output = alone ? model->forward(input) : ddp->forward(input);
    torch::cross_entropy_loss(output, labels).backward();
    optimizer.step();
  };
  for (int i = 0; i < std::min(steps, kWarmUp); ++i) step();
  dp::barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = kWarmUp; i < steps; ++i) step();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (rank == 0) {
    Write(*model, argv[3]);
    std::printf("{\"ms_per_step\": %.4f, \"libraries\": [%s]}\n",
                took.count() / std::max(1, steps - kWarmUp), Libraries().c_str());
  }
  dp::destroy_process_group();
} catch (const std::exception& error) {
  std::fprintf(stderr, "train: %s\n", error.what());
  return 1;
}
