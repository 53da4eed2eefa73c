#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace dp::ctl {

// Watches processes, whose ends it leaves to be reaped by their owner.
class ChildEnds {
 public:
  // `ended` is told the place of each process that ends, from a thread of this object's. The
  // descriptors are of pidfd_open, and outlive this; those below 0 are of nobody.
  ChildEnds(std::vector<int> pidfds, std::function<void(size_t place)> ended);
  // Nothing is told after it.
  ~ChildEnds();
  ChildEnds(const ChildEnds&) = delete;
  ChildEnds& operator=(const ChildEnds&) = delete;

 private:
  void Run();

  std::vector<int> pidfds_;
  const std::function<void(size_t)> ended_;
  const int stop_;  // an eventfd
  std::jthread thread_;
};

}  // namespace dp::ctl
