// DataParallel beside DistributedDataParallel: the same network and global batch, on two threads of
// one process and on two processes. Beside these it runs on one device. They take turns. Prints one
// JSON object a line: samples/s of the fastest step, and where its milliseconds went. "replicas" is
// the slowest replica's forward and backward. "alone" is loss and optimizer, as rank 0 or the
// caller computes them. "rest" is copying, gathering, summing and waiting. "cpu" is the processor
// time of a step on all cores, as a mean over the steps; other programs hardly change it.
//
//   data_parallel_bench [ROUNDS [STEPS]]

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "dp/data_parallel.h"
#include "dp/ddp.h"
#include "dp/spawn.h"

namespace dp::distributed {
namespace {

constexpr int64_t kInputs = 784, kHidden = 1024, kClasses = 10, kBatch = 128;

double Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

double ProcessorTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) { return 1e3 * time.tv_sec + 1e-3 * time.tv_usec; };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// The slowest replica's time in the phases of one step.
class Phases {
 public:
  void Add(int phase, double ms) {
    const std::lock_guard lock(mu_);
    longest_[phase] = std::max(longest_[phase], ms);
  }
  double Take() {
    const std::lock_guard lock(mu_);
    return std::exchange(longest_[0], 0) + std::exchange(longest_[1], 0);
  }

 private:
  std::mutex mu_;
  double longest_[2] = {0, 0};
};

std::vector<float> Draw(size_t count, float scale, int seed) {
  std::mt19937 draw(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = scale * (float(draw() % 2000) / 1000 - 1);
  return numbers;
}

// Linear, ReLU, linear. Weights have a row for each input.
class Network : public ReplicableModule {
 public:
  explicit Network(Phases& phases) : phases_(phases) {}

  std::vector<Parameter> parameters() override {
    return {{"fc1.weight", {kInputs, kHidden}, w1, g1},
            {"fc2.weight", {kHidden, kClasses}, w2, g2}};
  }
  std::unique_ptr<ReplicableModule> replicate() const override {
    return std::make_unique<Network>(*this);
  }
  Tensor forward(const Arguments& inputs) override {
    const double begin = Now();
    input_ = std::get<Tensor>(inputs[0]);
    const int64_t samples = input_.shape()[0];
    hidden_ = Times(input_.values<float>(), w1, samples, kInputs, kHidden);
    for (float& value : hidden_) value = std::max(value, 0.0f);
    Tensor output({samples, kClasses}, Times(hidden_, w2, samples, kHidden, kClasses));
    phases_.Add(0, Now() - begin);
    return output;
  }
  void backward(const Tensor& output_gradient) override {
    const double begin = Now();
    const int64_t samples = input_.shape()[0];
    const auto gradient = output_gradient.values<float>();
    AddProducts(hidden_, gradient, samples, kHidden, kClasses, g2);
    if (on_gradient) on_gradient(1);
    std::vector<float> through(hidden_.size());
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t h = 0; h < kHidden; ++h)
        if (hidden_[n * kHidden + h] > 0)
          for (int64_t c = 0; c < kClasses; ++c)
            through[n * kHidden + h] += w2[h * kClasses + c] * gradient[n * kClasses + c];
    AddProducts(input_.values<float>(), through, samples, kInputs, kHidden, g1);
    phases_.Add(1, Now() - begin);
    if (on_gradient) on_gradient(0);
  }
  void Step(float rate) {
    for (size_t i = 0; i < w1.size(); ++i) w1[i] -= rate * std::exchange(g1[i], 0.0f);
    for (size_t i = 0; i < w2.size(); ++i) w2[i] -= rate * std::exchange(g2[i], 0.0f);
  }

  std::vector<float> w1 = Draw(kInputs * kHidden, 0.03f, 1),
                     w2 = Draw(kHidden * kClasses, 0.03f, 2);
  std::vector<float> g1 = std::vector<float>(w1.size()), g2 = std::vector<float>(w2.size());
  std::function<void(size_t parameter)> on_gradient = {};

 private:
  static std::vector<float> Times(std::span<const float> rows, const std::vector<float>& weight,
                                  int64_t samples, int64_t in, int64_t out) {
    std::vector<float> products(samples * out);
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t i = 0; i < in; ++i)
        for (int64_t o = 0; o < out; ++o)
          products[n * out + o] += rows[n * in + i] * weight[i * out + o];
    return products;
  }
  static void AddProducts(std::span<const float> rows, std::span<const float> gradient,
                          int64_t samples, int64_t in, int64_t out, std::vector<float>& sums) {
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t i = 0; i < in; ++i)
        for (int64_t o = 0; o < out; ++o)
          sums[i * out + o] += rows[n * in + i] * gradient[n * out + o];
  }

  Phases& phases_;
  Tensor input_;
  std::vector<float> hidden_;
};

// The loss is the sum of (output - 1)^2 / 2 over the samples.
Tensor LossGradient(const Tensor& output) {
  Tensor gradient = output;
  for (float& value : gradient.values<float>()) value -= 1;
  return gradient;
}

// Times `steps` steps after a first one, and prints the fastest: others may have used the cores
// during the rest. `pass` is forward and backward, and returns the milliseconds that the loss took.
void Measure(const char* name, int steps, Phases& phases, Network& network,
             const std::function<double()>& pass, bool prints) {
  double total = std::numeric_limits<double>::max(), replicas = 0, alone = 0, before = 0;
  for (int step = 0; step <= steps; ++step) {
    const double begin = Now();
    const double loss = pass();
    const double update = Now();
    network.Step(1e-6f);
    const double end = Now(), longest = phases.Take();
    if (step == 0) before = ProcessorTime();
    if (step == 0 || end - begin >= total) continue;
    total = end - begin, replicas = longest, alone = loss + end - update;
  }
  std::vector<double> cpu = {(ProcessorTime() - before) / steps};
  if (is_initialized()) all_reduce(cpu);
  if (!prints) return;
  std::printf(
      "{\"name\":\"%s\",\"samples_per_s\":%.0f,\"step_ms\":%.2f,\"replicas_ms\":%.2f,"
      "\"alone_ms\":%.2f,\"rest_ms\":%.2f,\"cpu_ms\":%.2f}\n",
      name, 1000 * kBatch / total, total, replicas, alone, total - replicas - alone, cpu[0]);
}

Tensor Batch(int64_t samples, int seed) {
  return {{samples, kInputs}, Draw(samples * kInputs, 1, seed)};
}

void RunDataParallel(const char* name, int steps, const std::vector<std::string>& devices) {
  Phases phases;
  Network network(phases);
  DataParallel parallel(network, {.device_ids = devices});
  const Arguments batch = {Batch(kBatch, 3)};
  const auto pass = [&] {
    const Tensor output = parallel.forward(batch);
    const double begin = Now();
    const Tensor gradient = LossGradient(output);
    const double loss = Now() - begin;
    parallel.backward(gradient);
    return loss;
  };
  Measure(name, steps, phases, network, pass, true);
}

void RunDistributed(int rank, int steps) {
  init_process_group();
  Phases phases;
  Network network(phases);
  DistributedDataParallel ddp(network);
  network.on_gradient = [&](size_t parameter) { ddp.gradient_ready(parameter); };
  const Arguments batch = {Batch(kBatch / get_world_size(), 3 + rank)};
  const auto pass = [&] {
    ddp.begin_forward();
    const Tensor output = network.forward(batch);
    const double begin = Now();
    const Tensor gradient = LossGradient(output);
    const double loss = Now() - begin;
    network.backward(gradient);
    ddp.finish_backward();
    return loss;
  };
  Measure("ddp", steps, phases, network, pass, rank == 0);
  destroy_process_group();
}

}  // namespace
}  // namespace dp::distributed

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5, steps = argc > 2 ? std::atoi(argv[2]) : 10;
  DP_CHECK(rounds > 0 && steps > 0);
  using dp::distributed::spawn;
  for (int round = 0; round < rounds; ++round) {
    spawn([&](int) { dp::distributed::RunDataParallel("one_device", steps, {}); }, 1);
    spawn([&](int) { dp::distributed::RunDataParallel("dp", steps, {"cpu:0", "cpu:1"}); }, 1);
    spawn([&](int rank) { dp::distributed::RunDistributed(rank, steps); }, 2);
  }
}
