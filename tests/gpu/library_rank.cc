// One rank of a group of libdp_distributed over NCCL, in a process of its own, as group_rank.
//
//   library_rank --method file:///PATH --rank R --size N [--device D]
//
// Calls every verb on the GPU's memory, computing on a stream of its own. Prints a line for each
// property that holds, and exits with 0; exits with 1 at the first that does not hold. Built
// without NCCL it exits with 77.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "dp/distributed.h"
#include "tests/gpu/property.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::distributed {
namespace {

using gpu_tests::Property;

// Below and above the size that NCCL cuts into pieces.
constexpr size_t kCounts[] = {1, 257, size_t{1} << 20};
constexpr size_t kCountMax = size_t{1} << 20;
// For as many elements, in parts that are rounded up.
constexpr size_t kRoom = kCountMax + 64;

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

// The device as the program sees it: a stream, and copies that follow the stream's work.
class Gpu {
 public:
  explicit Gpu(int device) : api_(OrThrow(engine::LoadNccl())) {
    if (const absl::Status chosen = api_->UseDevice(device); !chosen.ok())
      throw std::runtime_error(chosen.ToString());
    stream_ = OrThrow(api_->MakeStream());
  }

  ~Gpu() { api_->FreeStream(stream_); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void* stream() const { return stream_; }
  void Write(const std::vector<float>& host, std::span<float> memory) {
    Copy(host.data(), memory.data(), host.size());
  }
  std::vector<float> Read(std::span<const float> memory) {
    std::vector<float> host(memory.size());
    Copy(memory.data(), host.data(), host.size());
    return host;
  }

 private:
  void Copy(const float* from, float* to, size_t count) {
    const absl::Status copied =
        api_->Copy(reinterpret_cast<const uint8_t*>(from), count * sizeof(float),
                   reinterpret_cast<uint8_t*>(to), stream_);
    if (!copied.ok()) throw std::runtime_error(copied.ToString());
  }

  const std::unique_ptr<engine::NcclApi> api_;
  void* stream_ = nullptr;
};

// The properties that must hold on each rank. Every rank calls them in the same order. Values are
// whole numbers so small that no order of adding them rounds.
class Verbs {
 public:
  Verbs(const ProcessGroup& group, Gpu& gpu)
      : group_(group),
        gpu_(gpu),
        rank_(group.rank()),
        size_(group.size()),
        data_(allocate<float>(kRoom, group)),
        other_(allocate<float>(2 * kRoom * static_cast<size_t>(size_), group)) {}

  void Run() {
    Property("memory is zeros at first", [this] { Zeros(); });
    Property("sums, means and maxima", [this] { Reductions(); });
    Property("broadcast, gather and all-gather", [this] { Gathers(); });
    Property("reduce-scatter, scatter and all-to-all", [this] { Parts(); });
    Property("the host's memory", [this] { Host(); });
    Property("calls follow one another on the program's stream", [this] { InFlight(); });
    if (size_ > 1) {
      Property("messages round a ring, by tag", [this] { Ring(); });
      Property("messages both ways at once", [this] { BothWays(); });
      Property("messages beside a collective", [this] { BesideACollective(); });
    }
    Property("a group of the same ranks in another order", [this] { NewGroup(); });
    Property("barriers", [this] { Barriers(); });
    Property("the host's memory is rejected where it is not taken", [this] { HostRejected(); });
    if (size_ == 2) Property("a message of another size is rejected", [this] { OtherSize(); });
  }

 private:
  void Expect(std::span<const float> memory, const std::vector<float>& expected) {
    const std::vector<float> found = gpu_.Read(memory);
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] != expected[i])
        throw std::runtime_error("element " + std::to_string(i) + " of " +
                                 std::to_string(found.size()) + " is " + std::to_string(found[i]) +
                                 ", not " + std::to_string(expected[i]));
    }
  }
  static std::vector<float> Filled(size_t count, int factor) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(static_cast<size_t>(factor) * (i % 61 + 1));
    return values;
  }
  // Parts of `count` values for all ranks; that of rank r has the factor of r.
  std::vector<float> Joined(size_t count, const std::function<int(int rank)>& factor) const {
    std::vector<float> joined;
    for (int r = 0; r < size_; ++r) {
      const std::vector<float> part = Filled(count, factor(r));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }
  std::span<float> Data(size_t count, int factor) {
    gpu_.Write(Filled(count, factor), data_);
    return data_.first(count);
  }
  size_t ranks() const { return static_cast<size_t>(size_); }
  int sum() const { return size_ * (size_ + 1) / 2; }

  void Zeros() { Expect(other_, std::vector<float>(other_.size())); }

  void Reductions() {
    for (const size_t count : kCounts) {
      auto data = Data(count, rank_ + 1);
      all_reduce(data, ReduceOp::kSum, group_);
      Expect(data, Filled(count, sum()));
      data = Data(count, 2 * size_ * (rank_ + 1));
      all_reduce(data, ReduceOp::kAvg, group_);
      Expect(data, Filled(count, 2 * sum()));
      data = Data(count, rank_ + 1);
      reduce(data, size_ - 1, ReduceOp::kMax, group_);
      Expect(data, Filled(count, rank_ == size_ - 1 ? size_ : rank_ + 1));
    }
  }

  void Gathers() {
    const auto factor = [](int rank) { return rank + 1; };
    for (const size_t count : kCounts) {
      const auto all = other_.first(count * ranks());
      auto data = Data(count, rank_ + 1);
      all_gather(all, data, group_);
      Expect(all, Joined(count, factor));
      gpu_.Write(std::vector<float>(all.size()), all);
      gather(rank_ == 0 ? all : std::span<float>(), data, 0, group_);
      Expect(all, rank_ == 0 ? Joined(count, factor) : std::vector<float>(all.size()));
      broadcast(data, size_ - 1, group_);
      Expect(data, Filled(count, size_));
    }
  }

  void Parts() {
    for (const size_t count : kCounts) {
      const size_t part = count / ranks() + 1;
      const auto all = other_.first(part * ranks());
      const auto mine = data_.first(part);
      gpu_.Write(Joined(part, [](int r) { return r + 1; }), all);
      reduce_scatter(mine, all, ReduceOp::kSum, group_);
      Expect(mine, Filled(part, size_ * (rank_ + 1)));
      scatter(mine, rank_ == 0 ? all : std::span<float>(), 0, group_);
      Expect(mine, Filled(part, rank_ + 1));
      const auto received = other_.subspan(all.size(), all.size());
      gpu_.Write(Joined(part, [this](int r) { return 10 * rank_ + r; }), all);
      all_to_all(received, all, group_);
      Expect(received, Joined(part, [this](int r) { return 10 * r + rank_; }));
    }
  }

  void Host() {
    std::vector<float> sums = Filled(5003, rank_ + 1), all(ranks());
    all_reduce(sums, ReduceOp::kSum, group_);
    if (sums != Filled(5003, sum())) throw std::runtime_error("another sum");
    all_gather(all, std::vector<float>{static_cast<float>(rank_)}, group_);
    for (int r = 0; r < size_; ++r) {
      if (all[static_cast<size_t>(r)] != static_cast<float>(r))
        throw std::runtime_error("other values were gathered");
    }
    broadcast(all, 0, group_);
  }

  // Each sum sees the one before, though the host waits for none.
  void InFlight() {
    constexpr int kSums = 8;
    const auto data = Data(1000, 1);
    int factor = 1;
    for (int i = 0; i < kSums; ++i, factor *= size_) all_reduce(data, ReduceOp::kSum, group_);
    Expect(data, Filled(1000, factor));
  }

  void Ring() {
    const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
    for (const size_t count : kCounts) {
      const auto data = Data(count, rank_ + 1), first = other_.first(count),
                 second = other_.subspan(count, count);
      Work sent[] = {isend(data, next, 1, group_), isend(data.first(1), next, 2, group_)};
      recv(second.first(1), previous, 2, group_);
      recv(first, previous, 1, group_);
      for (Work& work : sent) work.wait();
      Expect(first, Filled(count, previous + 1));
      Expect(second.first(1), Filled(1, previous + 1));
    }
  }

  void BothWays() {
    const size_t count = kCountMax;
    const auto data = Data(count, rank_ + 1);
    std::vector<Work> works;
    for (int r = 0; r < size_; ++r)
      if (r != rank_) works.push_back(isend(data, r, 0, group_));
    for (int r = 0; r < size_; ++r) {
      const auto room = other_.subspan(static_cast<size_t>(r) * count, count);
      if (r == rank_) gpu_.Write(Filled(count, rank_ + 1), room);
      if (r != rank_) works.push_back(irecv(room, r, 0, group_));
    }
    for (Work& work : works) work.wait();
    Expect(other_.first(count * ranks()), Joined(count, [](int r) { return r + 1; }));
  }

  // Rank 0 is in the sum before it sends; the last rank receives before it is.
  void BesideACollective() {
    const auto data = Data(1000, rank_ + 1), word = other_.first(1);
    gpu_.Write({static_cast<float>(rank_)}, word);
    if (rank_ == size_ - 1) recv(word, 0, 5, group_);
    Work reduced = all_reduce_async(data, ReduceOp::kSum, group_);
    if (rank_ == 0) send(word, size_ - 1, 5, group_);
    reduced.wait();
    Expect(data, Filled(1000, sum()));
    if (rank_ == size_ - 1) Expect(word, {0});
  }

  void NewGroup() {
    std::vector<int> reversed;
    for (int r = size_ - 1; r >= 0; --r) reversed.push_back(r);
    barrier(group_);  // one group at a time on a GPU
    const ProcessGroup other = new_group(reversed);
    const auto data = Data(100, rank_ + 1);
    all_reduce(data, ReduceOp::kSum, other);
    barrier(other);
    Expect(data, Filled(100, sum()));
    destroy_process_group(other);
  }

  void Barriers() {
    barrier(group_);
    monitored_barrier(group_);
  }

  void HostRejected() {
    std::vector<float> host(2);
    Rejected(ErrorKind::kInvalidArgument, [&] { reduce(host, 0, ReduceOp::kSum, group_); });
    if (size_ > 1)
      Rejected(ErrorKind::kInvalidArgument, [&] { send(host, (rank_ + 1) % size_, 0, group_); });
  }

  void OtherSize() {
    Rejected(ErrorKind::kMismatch, [this] {
      if (rank_ == 0) send(data_.first(10), 1, 0, group_);
      if (rank_ == 1) recv(data_.first(12), 0, 0, group_);
    });
  }

  static void Rejected(ErrorKind kind, const std::function<void()>& call) {
    try {
      call();
    } catch (const DistError& error) {
      if (error.kind() == kind) return;
      throw;
    }
    throw std::runtime_error("no error");
  }

  const ProcessGroup group_;
  Gpu& gpu_;
  const int rank_, size_;
  const std::span<float> data_, other_;
};

int Run(const std::map<std::string, std::string>& flags) {
  if (!is_nccl_available()) {
    std::printf("built without NCCL\n");
    return gpu_tests::kCannotRun;
  }
  const int device = std::atoi(flags.at("--device").c_str());
  Gpu gpu(device);
  init_process_group({.backend = "nccl",
                      .init_method = flags.at("--method"),
                      .world_size = std::atoi(flags.at("--size").c_str()),
                      .rank = std::atoi(flags.at("--rank").c_str()),
                      .timeout = std::chrono::seconds(60),
                      .device = device,
                      .stream = gpu.stream()});
  Verbs(default_group(), gpu).Run();
  destroy_process_group();
  std::printf("ok: leave\n");
  return 0;
}

}  // namespace
}  // namespace dp::distributed

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags = {
      {"--method", ""}, {"--rank", "0"}, {"--size", "1"}, {"--device", "0"}};
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  try {
    return dp::distributed::Run(flags);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return dp::gpu_tests::kWrong;
  }
}
