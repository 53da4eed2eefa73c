#include "worker/engine/device/cuda/snapshots/cuda_snapshots.h"

#include <numeric>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/cuda/runtime/cuda_download.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_memory.h"

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;

int CountOf(absl::string_view word, absl::string_view text) {
  int count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(DownloadTest, CopiesEverySizeThroughItsChunks) {
  constexpr int kChunk = 64;
  Download download = *Download::Make(kChunk);
  for (const int size : {0, 1, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk, 10 * kChunk + 7}) {
    std::vector<char> from(size), to(size);
    std::iota(from.begin(), from.end(), 1);
    const DeviceBuffer array = *DeviceBuffer::Allocate(size);
    ASSERT_EQ(cudaMemcpy(array.data(), from.data(), size, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(download.Copy(array.data(), size, to.data()), absl::OkStatus());
    EXPECT_EQ(to, from) << size;
  }
}

class SnapshotsTest : public ::testing::Test {
 protected:
  SnapshotsTest() : device_(*OpenCuda(0)), array_(*device_->Allocate(kSize)) {}
  ~SnapshotsTest() override {
    on_host::SetFreeMemory(on_host::kFreeMemory);
    on_host::RefusePinnedMemory(false);
  }

  std::unique_ptr<Snapshot> Take() const { return *device_->TakeSnapshot({array_->span()}); }
  void Write(float value) { device_->Write(Filled(value), array_->span()); }
  static std::vector<float> Filled(float value) { return std::vector<float>(kSize, value); }

  static constexpr int64_t kSize = 1000;
  static constexpr int64_t kBytes = kSize * 4;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Array> array_;
};

TEST_F(SnapshotsTest, MemoryOfTheDeviceIsAllocatedOnce) {
  const int64_t before = on_host::DeviceBytes();
  for (const float value : {1.0f, 2.0f}) {
    Write(value);
    const auto snapshot = Take();
    EXPECT_EQ(on_host::DeviceBytes(), before + kBytes);
    Write(0);
    EXPECT_THAT(*snapshot->Take(), ElementsAre(Filled(value)));
  }
}

TEST_F(SnapshotsTest, WithoutMemoryToSpareTheArraysAreCopiedToTheHostAtOnce) {
  on_host::SetFreeMemory(int64_t{512} << 20);  // all of it is reserved
  Write(1);
  const int64_t before = on_host::DeviceBytes();
  const auto snapshot = Take();
  EXPECT_EQ(on_host::DeviceBytes(), before);
  Write(0);
  EXPECT_THAT(*snapshot->Take(), ElementsAre(Filled(1)));
}

TEST_F(SnapshotsTest, WithoutPageLockedMemoryTheLogSaysSoOnce) {
  on_host::RefusePinnedMemory(true);
  Write(1);
  testing::internal::CaptureStderr();
  for (int checkpoint = 0; checkpoint < 3; ++checkpoint) {
    EXPECT_THAT(*Take()->Take(), ElementsAre(Filled(1)));
  }
  EXPECT_EQ(CountOf("gpu_snapshot_pageable", testing::internal::GetCapturedStderr()), 1);
}

TEST_F(SnapshotsTest, ASnapshotOutlivesItsDevice) {
  Write(1);
  const auto snapshot = Take();
  array_.reset();
  device_.reset();
  EXPECT_THAT(*snapshot->Take(), ElementsAre(Filled(1)));
}

}  // namespace
}  // namespace dp::engine::cuda
