#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"
#include "worker/engine/device/cuda/runtime/cuda_graph.h"
#include "worker/engine/device/cuda/runtime/cuda_pinned_ring.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"

namespace dp::engine::cuda {
namespace {

using ::testing::HasSubstr;

TEST_F(CudaTest, MemoryThatIsNotThereIsResourceExhausted) {
  const absl::Status status = DeviceBuffer::Allocate(int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaMalloc"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaTest, AnArenaHoldsItsArrays) {
  const absl::StatusOr<Arena> arena = Arena::Allocate(PlanArena({{.bytes = 400}, {.bytes = 4}}));
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->at<char>(1) - arena->at<char>(0), 512);
}

TEST_F(CudaTest, AGraphRunsWhatWasCaptured) {
  const auto a = OnDevice<float>({0.5f, 1, 1.5f, 2});
  Finish(Add(stream(), a.data(), a.data(), 4, a.data()));  // loads the kernel
  absl::StatusOr<GraphExec> graph = CaptureGraph(stream(), [&]() -> absl::Status {
    DP_CUDA_RETURN_IF_ERROR(Add(stream(), a.data(), a.data(), 4, a.data()));
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes(), 1u);
  EXPECT_THAT(a.Read(), ::testing::ElementsAre(1, 2, 3, 4));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(graph->Launch(stream()).ok());
  Finish(cudaSuccess);
  EXPECT_THAT(a.Read(), ::testing::ElementsAre(8, 16, 24, 32));
}

TEST_F(CudaTest, ACaptureThatFailsIsEnded) {
  const auto graph = CaptureGraph(stream(), [] { return absl::AbortedError("no more"); });
  EXPECT_EQ(graph.status(), absl::AbortedError("no more"));
  const auto a = OnDevice<float>({1});
  Finish(Add(stream(), a.data(), a.data(), 1, a.data()));
  EXPECT_THAT(a.Read(), ::testing::ElementsAre(2));
}

// Another stream then reads complete data.
TEST_F(CudaTest, TheHostWaitsForWhatAnEventHasBehindIt) {
  absl::StatusOr<Stream> other = Stream::Make();
  absl::StatusOr<Event> event = Event::Make();
  ASSERT_TRUE(other.ok() && event.ok());
  constexpr int kBytes = 64 << 20;
  DeviceArray<uint8_t> values(kBytes);
  EXPECT_EQ(cudaMemsetAsync(values.data(), 7, kBytes, stream()), cudaSuccess);
  EXPECT_TRUE(event->Record(stream()).ok());
  EXPECT_TRUE(event->Synchronize().ok());
  uint8_t last = 0;
  EXPECT_EQ(
      cudaMemcpyAsync(&last, values.data() + kBytes - 1, 1, cudaMemcpyDeviceToHost, other->get()),
      cudaSuccess);
  EXPECT_TRUE(other->Synchronize().ok());
  EXPECT_EQ(last, 7);
}

TEST_F(CudaTest, ARingHandsOutItsSlotsInTurn) {
  absl::StatusOr<PinnedRing> ring = PinnedRing::Make(2, 100);
  ASSERT_TRUE(ring.ok()) << ring.status();
  void* first = *ring->Acquire();
  EXPECT_TRUE(ring->Release(stream()).ok());
  void* second = *ring->Acquire();
  EXPECT_TRUE(ring->Release(stream()).ok());
  EXPECT_NE(first, second);
  EXPECT_EQ(*ring->Acquire(), first);
}

}  // namespace
}  // namespace dp::engine::cuda
