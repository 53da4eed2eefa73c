// Trains a network of LibTorch to tell whether a point lies in the unit circle.
//
//   dpctl run --local --nproc-per-node 2 -- libtorch_train [FILE]
//
// Rank 0 saves the weights to FILE, which torch::load reads.

#include <dp/libtorch.h>

#include <cstdio>
#include <memory>
#include <string>

struct Net : torch::nn::Module {
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(2, 64));
    norm = register_module("norm", torch::nn::BatchNorm1d(64));
    output = register_module("output", torch::nn::Linear(64, 1));
  }
  torch::Tensor forward(const torch::Tensor& points) {
    return output(torch::relu(norm(hidden(points)))).squeeze(1);
  }

  torch::nn::Linear hidden{nullptr}, output{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

int main(int argc, char** argv) try {
  dp::init_process_group();
  const int rank = dp::get_rank();
  auto net = std::make_shared<Net>();
  dp::libtorch::DistributedDataParallel ddp(net);  // every rank begins with rank 0's weights
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));

  torch::manual_seed(100 + rank);  // each rank draws points of its own
  torch::Tensor loss;
  for (int step = 0; step < 400; ++step) {
    const auto points = 3 * torch::rand({64, 2}) - 1.5;
    const auto inside = (points.square().sum(1) < 1).to(torch::kFloat);
    optimizer.zero_grad();
    loss = torch::binary_cross_entropy_with_logits(ddp.forward(points), inside);
    loss.backward();  // returns when the gradients are the mean over the ranks
    optimizer.step();
  }
  net->eval();
  const auto points = 3 * torch::rand({10000, 2}) - 1.5;
  const auto right = (net->forward(points) > 0) == (points.square().sum(1) < 1);
  std::printf("rank %d of %d: %.1f%% of the points are right\n", rank, dp::get_world_size(),
              100 * right.to(torch::kFloat).mean().item<float>());
  if (argc > 1 && rank == 0) torch::save(net, argv[1]);
  dp::destroy_process_group();
} catch (const std::exception& error) {
  std::fprintf(stderr, "libtorch_train: %s\n", error.what());
  return 1;
}
