// Trains a network of one hidden layer to give sin(x), by dp::DistributedDataParallel.
//
//   dpctl run --local --nproc-per-node 2 -- network
//   network file:///PATH WORLD_SIZE RANK

#include <dp/ddp.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

constexpr size_t kHidden = 32;

// One input, kHidden units of tanh, one output.
class Network : public dp::Module {
 public:
  explicit Network(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& weight : values_[0]) weight = normal(random);
    for (float& weight : values_[2]) weight = 0.1f * normal(random);
  }

  std::vector<dp::Parameter> parameters() override {
    return {{"hidden.weight", {kHidden, 1}, values_[0]},
            {"hidden.bias", {kHidden}, values_[1]},
            {"output.weight", {1, kHidden}, values_[2]},
            {"output.bias", {1}, values_[3]}};
  }
  bool move_gradient(size_t index, dp::MutableElements memory) override {
    gradients_[index] = {static_cast<float*>(memory.data), memory.count};
    return true;
  }

  float Forward(float x) {
    float y = values_[3][0];
    for (size_t h = 0; h < kHidden; ++h) {
      hidden_[h] = std::tanh(values_[0][h] * x + values_[1][h]);
      y += values_[2][h] * hidden_[h];
    }
    return y;
  }
  // Adds the gradients of one sample, whose loss has the slope `slope` in the output.
  void Backward(float x, float slope) {
    gradients_[3][0] += slope;
    for (size_t h = 0; h < kHidden; ++h) {
      gradients_[2][h] += slope * hidden_[h];
      const float inner = slope * values_[2][h] * (1 - hidden_[h] * hidden_[h]);
      gradients_[1][h] += inner;
      gradients_[0][h] += inner * x;
    }
  }
  void Step(float rate) {
    for (size_t p = 0; p < values_.size(); ++p)
      for (size_t i = 0; i < values_[p].size(); ++i) values_[p][i] -= rate * gradients_[p][i];
  }

 private:
  std::vector<std::vector<float>> values_ = {std::vector<float>(kHidden),
                                             std::vector<float>(kHidden),
                                             std::vector<float>(kHidden), std::vector<float>(1)};
  std::vector<std::span<float>> gradients_{4};
  std::vector<float> hidden_ = std::vector<float>(kHidden);
};

int main(int argc, char** argv) try {
  dp::InitOptions options;
  if (argc == 4) {
    options.init_method = argv[1];
    options.world_size = std::atoi(argv[2]);
    options.rank = std::atoi(argv[3]);
  }
  dp::init_process_group(options);
  const int rank = dp::get_rank(), size = dp::get_world_size();
  Network network(rank);                     // each rank draws other weights
  dp::DistributedDataParallel ddp(network);  // and takes those of rank 0

  const int batch = 64;
  std::mt19937 random(7);  // the same on every rank, which takes its share of each batch
  std::uniform_real_distribution<float> uniform(-3, 3);
  float loss = 0;
  for (int step = 0; step < 3000; ++step) {
    ddp.zero_grad();
    ddp.begin_forward();
    std::vector<float> squares = {0};
    for (int sample = 0; sample < batch; ++sample) {
      const float x = uniform(random);
      if (sample % size != rank) continue;
      const float error = network.Forward(x) - std::sin(x);
      squares[0] += error * error;
      // The mean over ranks of the sums of their shares becomes the mean over the batch.
      network.Backward(x, 2 * error * float(size) / batch);
    }
    for (size_t p = 4; p-- > 0;) ddp.gradient_ready(p);
    ddp.finish_backward();
    dp::clip_grad_norm(ddp.gradients(), 1);
    network.Step(0.05f);
    dp::all_reduce(squares);
    loss = squares[0] / batch;
  }
  std::printf("rank %d of %d: loss %.5f, sin(1) is about %.3f\n", rank, size, loss,
              network.Forward(1));
  dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::fprintf(stderr, "network: %s\n", error.what());
  return 1;
}
