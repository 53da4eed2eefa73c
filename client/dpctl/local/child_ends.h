#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace dp::ctl {

// Watches processes for their end. Their owner still reaps them.
class ChildEnds {
 public:
  // Calls `ended` with the place of each process that ends, from a thread of this object. The
  // descriptors come from pidfd_open and must outlive this object; those below 0 are skipped.
  ChildEnds(std::vector<int> pidfds, std::function<void(size_t place)> ended);
  // No call of `ended` follows.
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
