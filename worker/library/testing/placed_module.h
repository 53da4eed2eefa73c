#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dp/ddp.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

namespace dp::library {

using Floats = std::vector<float>;

// Where a rank computes: on a GPU's stream, or on the host at once.
class Place {
 public:
  Place(const distributed::ProcessGroup& group, engine::FakeNccl* gpu, void* stream)
      : group_(group), gpu_(gpu), stream_(stream) {}

  const distributed::ProcessGroup& group() const { return group_; }
  int rank() const { return group_.rank(); }
  bool is_gpu() const { return gpu_ != nullptr; }

  // Runs a kernel.
  void Run(std::function<void()> kernel) const {
    if (!is_gpu()) return kernel();
    gpu_->Enqueue(stream_, std::move(kernel));
  }
  // In the memory of the group.
  std::span<float> Of(const Floats& values) const {
    const std::span<float> memory = distributed::allocate<float>(values.size(), group_);
    std::copy(values.begin(), values.end(), memory.begin());  // before any kernel
    return memory;
  }
  // Awaits the stream.
  Floats Read(std::span<const float> values) const {
    Floats read(values.size());
    const auto bytes = std::as_bytes(values);
    if (is_gpu()) {
      EXPECT_TRUE(gpu_->Copy(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                             reinterpret_cast<uint8_t*>(read.data()), stream_)
                      .ok());
    } else {
      std::copy(values.begin(), values.end(), read.begin());
    }
    return read;
  }

 private:
  const distributed::ProcessGroup group_;
  engine::FakeNccl* const gpu_;
  void* const stream_;
};

// Three parameters and a buffer in the memory of a place, and Sgd.
class PlacedModule : public distributed::Module {
 public:
  explicit PlacedModule(const Place& place) : place_(place) {
    const auto start = float(place.rank());
    for (const size_t size : {size_t{5}, size_t{33}, size_t{8}}) {
      values.push_back(place.Of(Floats(size, start + 1)));
      own_.push_back(place.Of(Floats(size)));
    }
    gradients = own_;
    running = place.Of({start, 7});
  }

  std::vector<distributed::Parameter> parameters() override {
    std::vector<distributed::Parameter> all;
    for (size_t p = 0; p < values.size(); ++p)
      all.push_back({"w" + std::to_string(p), {int64_t(values[p].size())}, values[p], own_[p]});
    return all;
  }
  std::vector<distributed::Buffer> buffers() override { return {{"running", {2}, running}}; }
  bool move_gradient(size_t index, distributed::MutableElements memory) override {
    if (moves) gradients[index] = {static_cast<float*>(memory.data), memory.count};
    return moves;
  }

  // Adds to a gradient what differs by rank, step and element.
  void Backward(size_t parameter, int step) {
    place_.Run([gradient = gradients[parameter], rank = place_.rank(), step] {
      for (size_t i = 0; i < gradient.size(); ++i)
        gradient[i] += 0.37f * float(rank + 1) + 0.01f * float(i) - 0.3f * float(step);
    });
  }
  void Update() {
    for (size_t p = 0; p < values.size(); ++p) {
      place_.Run([to = values[p], from = gradients[p]] {
        for (size_t i = 0; i < to.size(); ++i) to[i] -= 0.1f * from[i];
      });
    }
  }
  // All values, then all gradients and the buffer.
  Floats All() const {
    Floats all;
    const auto append = [&](std::span<const float> some) {
      const Floats read = place_.Read(some);
      all.insert(all.end(), read.begin(), read.end());
    };
    for (const auto& some : values) append(some);
    for (const auto& some : gradients) append(some);
    append(running);
    return all;
  }

  bool moves = true;
  std::vector<std::span<float>> values, gradients;
  std::span<float> running;

 private:
  const Place& place_;
  std::vector<std::span<float>> own_;
};

}  // namespace dp::library
