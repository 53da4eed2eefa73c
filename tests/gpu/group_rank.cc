// One rank of a group in a process of its own, for tests whose ranks cannot be threads. NCCL
// accepts several ranks on one GPU only from processes that seem to be on different hosts
// (NCCL_HOSTID).
//
//   group_rank --store FILE --rank R --size N [--backend nccl] [--timeout-s 60] [--until error]
//
// Memory is the GPU's with nccl, the host's with gloo. Prints a line for each property of a group
// that holds, and exits with 0; exits with 1 at the first that does not hold. With `--until error`
// it reduces until an error, prints the error and exits with 3. Built without the backend it exits
// with 77.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "store/file_store.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/device/device.h"

namespace dp::engine {
namespace {

constexpr int kWrong = 1;
constexpr int kEndedByError = 3;
constexpr int kCannotRun = 77;
// 1 KiB and 8 MiB are among them: below and above the size that NCCL cuts into pieces.
constexpr int64_t kCounts[] = {1, 17, 256, 70001, int64_t{1} << 21};
constexpr int64_t kFloatsMax = int64_t{1} << 21;
// Allows for a rounding of each rank's value and of each sum.
constexpr float kMeanTolerance = 1e-6f;

struct Options {
  std::map<std::string, std::string> flags = {{"--store", ""},       {"--rank", "0"},
                                              {"--size", "1"},       {"--backend", "nccl"},
                                              {"--timeout-s", "60"}, {"--until", "end"}};

  const std::string& text(const std::string& flag) const { return flags.at(flag); }
  int number(const std::string& flag) const {
    int value = 0;
    DP_CHECK(absl::SimpleAtoi(text(flag), &value));
    return value;
  }
};

// Memory of the device, with copies from and to the host.
class Memory {
 public:
  Memory(Device& device, int64_t floats) : device_(device), array_(*device.Allocate(floats)) {}

  absl::Span<float> floats(size_t count) { return array_->span().first(count); }
  absl::Span<uint8_t> bytes(size_t count) {
    return {reinterpret_cast<uint8_t*>(array_->span().data()), count};
  }
  void Write(const std::vector<float>& host) { device_.Write(host, floats(host.size())); }
  std::vector<float> Read(size_t count) {
    std::vector<float> host(count);
    device_.Read(floats(count), absl::MakeSpan(host));
    return host;
  }

 private:
  Device& device_;
  std::unique_ptr<Array> array_;
};

// The properties that must hold on each rank. Every rank calls the same operations in the same
// order.
class Conformance {
 public:
  Conformance(Group& group, Device& device)
      : group_(group), data_(device, kFloatsMax), gathered_(device, kFloatsMax * group.size()) {}

  absl::Status Run() {
    DP_RETURN_IF_ERROR(Told("sums", Sums()));
    DP_RETURN_IF_ERROR(Told("means", Means()));
    DP_RETURN_IF_ERROR(Told("the same sum twice has the same bits on all ranks", SameBits()));
    DP_RETURN_IF_ERROR(Told("min and max", MinAndMax()));
    DP_RETURN_IF_ERROR(Told("broadcast from each rank", Broadcasts()));
    DP_RETURN_IF_ERROR(Told("operations in flight run in order", InFlight()));
    DP_RETURN_IF_ERROR(Told("operations over the host's memory", OnHost()));
    return Told("leave", group_.Leave()->Wait());
  }

 private:
  static absl::Status Told(const char* what, const absl::Status& status) {
    if (!status.ok())
      return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
    std::printf("ok: %s\n", what);
    std::fflush(stdout);
    return status;
  }
  static absl::Status Expect(bool holds, absl::string_view what) {
    return holds ? absl::OkStatus() : absl::DataLossError(what);
  }

  absl::Status Reduce(size_t count, ReduceOp op) {
    return group_.AllReduce(data_.floats(count), op)->Wait();
  }
  std::vector<float> Filled(size_t count, int factor) const {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(factor * (i % 61 + 1));
    return values;
  }

  // The values are whole numbers so small that no order of adding them rounds.
  absl::Status Sums() {
    for (const int64_t count : kCounts) {
      data_.Write(Filled(count, group_.rank() + 1));
      DP_RETURN_IF_ERROR(Reduce(count, ReduceOp::kSum));
      const int factors = group_.size() * (group_.size() + 1) / 2;
      DP_RETURN_IF_ERROR(Expect(data_.Read(count) == Filled(count, factors),
                                absl::StrCat("another sum of ", count, " floats")));
    }
    return absl::OkStatus();
  }

  // Gradients are reduced to their mean. Each value may be scaled before it is added, which rounds.
  absl::Status Means() {
    const int size = group_.size();
    for (const int64_t count : kCounts) {
      data_.Write(Filled(count, group_.rank() + 1));
      DP_RETURN_IF_ERROR(Reduce(count, ReduceOp::kMean));
      const std::vector<float> means = data_.Read(count),
                               sums = Filled(count, size * (size + 1) / 2);
      const auto near = [size](float mean, float sum) {
        const float expected = sum / static_cast<float>(size);
        return std::abs(mean - expected) <= kMeanTolerance * expected;
      };
      DP_RETURN_IF_ERROR(Expect(std::equal(means.begin(), means.end(), sums.begin(), near),
                                absl::StrCat("another mean of ", count, " floats")));
    }
    return absl::OkStatus();
  }

  absl::Status SameBits() {
    constexpr size_t kCount = 70001;
    std::vector<float> first;
    for (int turn = 0; turn < 2; ++turn) {
      data_.Write(AwkwardValues(group_.rank(), kCount));
      DP_RETURN_IF_ERROR(Reduce(kCount, ReduceOp::kSum));
      if (turn == 0) first = data_.Read(kCount);
    }
    DP_RETURN_IF_ERROR(Expect(data_.Read(kCount) == first, "the second sum differs"));
    if (group_.size() == 1) return absl::OkStatus();  // NCCL has no part in it
    constexpr size_t kBytes = kCount * sizeof(float);
    DP_RETURN_IF_ERROR(
        group_.AllGather(data_.bytes(kBytes), gathered_.bytes(kBytes * group_.size()))->Wait());
    const std::vector<float> all = gathered_.Read(kCount * group_.size());
    for (int r = 0; r < group_.size(); ++r) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(kCount) * r;
      DP_RETURN_IF_ERROR(Expect(std::equal(first.begin(), first.end(), begin),
                                absl::StrCat("rank ", r, " has another sum")));
    }
    return absl::OkStatus();
  }

  absl::Status MinAndMax() {
    const auto mine = static_cast<float>(group_.rank());
    const auto last = static_cast<float>(group_.size() - 1);
    data_.Write({mine, -mine});
    DP_RETURN_IF_ERROR(Reduce(2, ReduceOp::kMin));
    DP_RETURN_IF_ERROR(Expect(data_.Read(2) == std::vector<float>{0, -last}, "another minimum"));
    data_.Write({mine, -mine});
    DP_RETURN_IF_ERROR(Reduce(2, ReduceOp::kMax));
    return Expect(data_.Read(2) == std::vector<float>{last, 0}, "another maximum");
  }

  absl::Status Broadcasts() {
    constexpr size_t kCount = 5003;
    for (int root = 0; root < group_.size(); ++root) {
      data_.Write(Filled(kCount, group_.rank() + 1));
      DP_RETURN_IF_ERROR(group_.Broadcast(data_.bytes(kCount * sizeof(float)), root)->Wait());
      DP_RETURN_IF_ERROR(Expect(data_.Read(kCount) == Filled(kCount, root + 1),
                                absl::StrCat("rank ", root, "'s bytes did not arrive")));
    }
    return absl::OkStatus();
  }

  // All operations use the same memory, so each sees what its predecessor left.
  absl::Status InFlight() {
    constexpr int kOperations = 20;
    data_.Write(Filled(1000, group_.rank() + 1));
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < kOperations; ++i)
      works.push_back(group_.AllReduce(data_.floats(1000), ReduceOp::kMax));
    works.push_back(group_.AllReduce(data_.floats(1000), ReduceOp::kSum));
    for (auto& work : works) DP_RETURN_IF_ERROR(work->Wait());
    const int size = group_.size();
    return Expect(data_.Read(1000) == Filled(1000, size * size), "they did not run in order");
  }

  // Reduces more than goes through the device in one piece.
  absl::Status OnHost() {
    Group& group = group_.on_host();
    const int size = group.size();
    constexpr size_t kCount = (size_t{5} << 20) / sizeof(float) + 3;
    std::vector<float> values = Filled(kCount, group.rank() + 1);
    DP_RETURN_IF_ERROR(group.AllReduce(absl::MakeSpan(values), ReduceOp::kSum)->Wait());
    const auto sums = Filled(kCount, size * (size + 1) / 2);
    DP_RETURN_IF_ERROR(Expect(values == sums, "another sum"));
    std::vector<uint8_t> word(7, static_cast<uint8_t>(group.rank())), words(word.size() * size);
    DP_RETURN_IF_ERROR(group.AllGather(absl::MakeConstSpan(word), absl::MakeSpan(words))->Wait());
    for (size_t i = 0; i < words.size(); ++i) {
      DP_RETURN_IF_ERROR(Expect(words[i] == i / word.size(), "other bytes gathered"));
    }
    DP_RETURN_IF_ERROR(group.Broadcast(absl::MakeSpan(word), size - 1)->Wait());
    return Expect(word == std::vector<uint8_t>(word.size(), static_cast<uint8_t>(size - 1)),
                  "the last rank's bytes did not arrive");
  }

  Group& group_;
  Memory data_, gathered_;
};

absl::StatusOr<std::unique_ptr<Group>> Connect(const Options& options, Store& store,
                                               const Device& device) {
  const GroupOptions group{.timeout = absl::Seconds(options.number("--timeout-s"))};
  const int rank = options.number("--rank"), size = options.number("--size");
  if (options.text("--backend") == "gloo")
    return ConnectGloo(store, rank, size, {.group = group, .address = "127.0.0.1"});
  static NcclApi* api = nullptr;  // outlives every group
  DP_ASSIGN_OR_RETURN(auto loaded, LoadNccl());
  api = loaded.release();
  return ConnectNccl(*api, store, rank, size, {.group = group, .compute_stream = device.stream()});
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const Options& options) {
  return options.text("--backend") == "gloo" ? OpenCpu(1) : OpenCuda(0);
}

absl::Status ReduceUntilError(Group& group, Device& device) {
  Memory data(device, kFloatsMax);
  for (int i = 0;; ++i) {
    DP_RETURN_IF_ERROR(group.AllReduce(data.floats(kFloatsMax), ReduceOp::kSum)->Wait());
    if (i > 0) continue;
    std::printf("reducing\n");
    std::fflush(stdout);
  }
}

int Say(int exit_code, const absl::Status& status) {
  std::printf("%s\n", status.ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return exit_code;
}

// A build without the backend is no failure.
int SayAtStart(const absl::Status& status) {
  return Say(absl::IsUnimplemented(status) ? kCannotRun : kWrong, status);
}

int Run(const Options& options) {
  const auto device = OpenDevice(options);
  if (!device.ok()) return SayAtStart(device.status());
  const auto store = FileStore::Open(options.text("--store"), options.number("--size"));
  if (!store.ok()) return Say(kWrong, store.status());
  const auto group = Connect(options, **store, **device);
  if (!group.ok()) return SayAtStart(group.status());
  if (options.text("--until") == "error")
    return Say(kEndedByError, ReduceUntilError(**group, **device));
  const absl::Status status = Conformance(**group, **device).Run();
  return status.ok() ? 0 : Say(kWrong, status);
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  dp::engine::Options options;
  for (int i = 1; i + 1 < argc; i += 2) options.flags[argv[i]] = argv[i + 1];
  return dp::engine::Run(options);
}
