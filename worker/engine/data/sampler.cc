#include "worker/engine/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "worker/engine/nn/generator.h"

namespace dp::engine {
namespace {

std::vector<int64_t> Order(int64_t n, bool shuffle, uint64_t seed) {
  if (shuffle) return RandomPermutation(n, seed);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<int64_t> RandomPermutation(int64_t n, uint64_t seed) {
  DP_CHECK(n >= 0 && n < (int64_t{1} << 32));
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Generator generator(seed);
  for (int64_t i = 0; i + 1 < n; ++i) std::swap(order[i], order[i + generator.Next() % (n - i)]);
  return order;
}

std::vector<int64_t> DistributedSampler::Indices(uint64_t epoch) const {
  DP_CHECK(n >= 0 && replicas > 0 && rank >= 0 && rank < replicas);
  std::vector<int64_t> order = Order(n, shuffle, seed + epoch);
  const int64_t share = drop_last ? n / replicas : DivideUp(n, replicas);
  const int64_t total = share * replicas;
  order.resize(std::min(n, total));
  // The padding repeats the order from its beginning, more than once if replicas exceed 2 n.
  for (int64_t i = n; i < total; ++i) order.push_back(order[i - n]);

  std::vector<int64_t> indices;
  indices.reserve(share);
  for (int64_t i = rank; i < total; i += replicas) indices.push_back(order[i]);
  return indices;
}

GlobalBatchSampler::GlobalBatchSampler(const GlobalBatchOptions& options) : options_(options) {
  DP_CHECK(options.n > 0 && options.global_batch_size > 0);
  DP_CHECK(options.rank >= 0 && options.rank < options.world_size);
  SetEpoch(0);
}

void GlobalBatchSampler::SetEpoch(uint64_t epoch) {
  epoch_ = epoch;
  order_ = Order(options_.n, options_.shuffle, options_.seed + epoch);
}

int64_t GlobalBatchSampler::steps() const {
  return options_.drop_last ? options_.n / options_.global_batch_size
                            : DivideUp(options_.n, options_.global_batch_size);
}

int GlobalBatchSampler::capacity() const {
  return static_cast<int>(DivideUp(options_.global_batch_size, options_.world_size));
}

Share GlobalBatchSampler::share(int64_t step) const {
  DP_CHECK(step >= 0 && step < steps());
  const int64_t begin = step * options_.global_batch_size;
  const int64_t end = std::min(begin + options_.global_batch_size, options_.n);
  Share share{.global_count = end - begin};
  for (int64_t i = begin + options_.rank; i < end; i += options_.world_size) {
    share.samples.push_back(order_[i]);
  }
  return share;
}

float GradientScale(int64_t global_count, int world_size) {
  return static_cast<float>(static_cast<double>(world_size) / static_cast<double>(global_count));
}

}  // namespace dp::engine
