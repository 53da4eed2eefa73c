#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

// The calls that reach NCCL and CUDA's runtime, as stand-ins for the libraries record them.

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

class NcclCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    nccl_ = dlopen(DP_NCCL_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    cuda_ = dlopen(DP_CUDART_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(nccl_ != nullptr && cuda_ != nullptr) << dlerror();
    auto loaded = LoadNccl();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    api_ = *std::move(loaded);
    Answer();
    (void)ToNccl();
    (void)ToCuda();
  }

  // The calls to each library since the last such question.
  std::string ToNccl() const { return Calls(nccl_); }
  std::string ToCuda() const { return Calls(cuda_); }
  void Answer(ncclResult_t next = ncclSuccess, ncclResult_t communicator = ncclSuccess,
              cudaError_t event = cudaSuccess) const {
    for (void* library : {nccl_, cuda_}) {
      reinterpret_cast<void (*)(int, int, int)>(dlsym(library, "StandInAnswers"))(
          next, communicator, event);
    }
  }
  // The words for the latest error.
  void Explain(const char* reason) const {
    reinterpret_cast<void (*)(const char*)>(dlsym(nccl_, "StandInReason"))(reason);
  }
  static std::string Calls(void* library) {
    return reinterpret_cast<const char* (*)()>(dlsym(library, "StandInCalls"))();
  }

  static void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

  void* nccl_ = nullptr;
  void* cuda_ = nullptr;
  std::unique_ptr<NcclApi> api_;
  const std::string id_ = std::string(128, 'i');
  void* const communicator_ = At(0xc0);
  void* const stream_ = At(0x50);
};

TEST_F(NcclCallsTest, ACommunicatorIsNonBlockingAndMadeFromAllIds) {
  const auto joined = api_->Join({&id_, 1}, /*rank=*/2, /*size=*/3, {});
  EXPECT_EQ(joined.value(), communicator_);
  EXPECT_EQ(ToNccl(),
            "init size=3 id=i rank=2\n"
            "config size=1 blocking=0 cga=2 max_ctas=0 policy=1\n");
  const std::string ids[] = {id_, std::string(128, 'j')};
  EXPECT_TRUE(api_->Join(ids, 4, 600, {}).ok());
  EXPECT_THAT(ToNccl(), HasSubstr("init size=600 rank=4 ids=2 last=j\n"));
}

TEST_F(NcclCallsTest, ALimitOfThreadBlocksReachesTheCommunicator) {
  EXPECT_TRUE(api_->Join({&id_, 1}, 0, 2, {.ctas_max = 4}).ok());
  EXPECT_THAT(ToNccl(), HasSubstr(" max_ctas=4 "));
}

TEST_F(NcclCallsTest, OneThatCannotBeMadeIsAborted) {
  Answer(ncclInvalidUsage);
  const auto joined = api_->Join({&id_, 1}, 0, 2, {});
  EXPECT_EQ(joined.status(), absl::InternalError("NCCL: an error: its reason"));
  EXPECT_THAT(ToNccl(), HasSubstr("abort 0xc0\n"));
}

TEST_F(NcclCallsTest, WhatIsInProgressIsNotReadyAndNoError) {
  Answer(ncclInProgress, ncclInProgress);
  EXPECT_TRUE(api_->Finalize(communicator_).ok());
  EXPECT_FALSE(api_->Ready(communicator_).value());
  Answer();
  EXPECT_TRUE(api_->Ready(communicator_).value());
}

TEST_F(NcclCallsTest, APeersFaultIsUnavailable) {
  for (const ncclResult_t fault : {ncclRemoteError, ncclSystemError}) {
    Answer(ncclSuccess, fault);
    EXPECT_TRUE(absl::IsUnavailable(api_->Ready(communicator_).status())) << fault;
  }
  Answer(ncclSuccess, ncclInternalError);
  EXPECT_TRUE(absl::IsInternal(api_->Ready(communicator_).status()));
}

TEST_F(NcclCallsTest, AnErrorOfTheSystemWhileJoiningIsThisHosts) {
  Answer(ncclSystemError);
  EXPECT_TRUE(absl::IsFailedPrecondition(api_->UniqueId().status()));
  Answer(ncclSystemError);
  const absl::Status joined = api_->Join({&id_, 1}, 0, 2, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()), HasSubstr("its reason; this host failed, not a peer"));
  Answer(ncclSuccess, ncclSystemError);
  EXPECT_TRUE(absl::IsFailedPrecondition(api_->Joined(communicator_).status()));
  Answer(ncclRemoteError);
  EXPECT_TRUE(absl::IsUnavailable(api_->Join({&id_, 1}, 0, 2, {}).status()));
  Answer(ncclSuccess, ncclRemoteError);
  EXPECT_TRUE(absl::IsUnavailable(api_->Joined(communicator_).status()));
}

TEST_F(NcclCallsTest, AJoinThatIsInProgressIsNoError) {
  Answer(ncclSuccess, ncclInProgress);
  EXPECT_FALSE(api_->Joined(communicator_).value());
  Answer();
  EXPECT_TRUE(api_->Joined(communicator_).value());
}

TEST_F(NcclCallsTest, AGpuWithoutRoomForNcclsBuffersIsNoFaultOfAPeer) {
  Answer(ncclSuccess, ncclUnhandledCudaError);
  EXPECT_TRUE(absl::IsInternal(api_->Joined(communicator_).status()));
  Explain("Cuda failure 2 'out of memory'");
  const absl::Status joined = api_->Joined(communicator_).status();
  EXPECT_EQ(joined, absl::ResourceExhaustedError("the GPU has no room for NCCL's buffers: NCCL: an "
                                                 "error: Cuda failure 2 'out of memory'"));
  EXPECT_TRUE(absl::IsInternal(api_->Ready(communicator_).status()));
  Explain("its reason");
}

// Each operation as the library gets it. The memory is only named, never touched.
TEST_F(NcclCallsTest, OperationsGetTheirMemoryTypeAndStream) {
  using Kind = CallShape::Kind;
  const absl::Span<uint8_t> at_1000(static_cast<uint8_t*>(At(0x1000)), 28);
  const absl::Span<uint8_t> at_2000(static_cast<uint8_t*>(At(0x2000)), 14);
  const auto give = [&](CallShape shape, absl::Span<uint8_t> input, absl::Span<uint8_t> output) {
    EXPECT_TRUE(
        api_->Give(communicator_, {.shape = shape, .input = input, .output = output}, stream_)
            .ok());
    return ToNccl();
  };
  EXPECT_EQ(
      give(
          {.kind = Kind::kAllReduce, .type = DataType::kFloat32, .op = ReduceOp::kMean, .count = 7},
          at_1000, at_1000),
      absl::StrCat("all_reduce 0x1000 0x1000 count=7 type=", ncclFloat32, " op=", ncclAvg,
                   " 0xc0 0x50\n"));
  EXPECT_EQ(give({.kind = Kind::kReduce,
                  .type = DataType::kBfloat16,
                  .op = ReduceOp::kProduct,
                  .root = 2,
                  .count = 14},
                 at_1000, at_1000),
            absl::StrCat("reduce 0x1000 0x1000 count=14 type=", ncclBfloat16, " op=", ncclProd,
                         " root=2 0xc0 0x50\n"));
  EXPECT_EQ(give({.kind = Kind::kReduceScatter,
                  .type = DataType::kFloat16,
                  .op = ReduceOp::kMax,
                  .count = 14},
                 at_1000, at_2000),
            absl::StrCat("reduce_scatter 0x1000 0x2000 count=7 type=", ncclFloat16, " op=", ncclMax,
                         " 0xc0 0x50\n"));
  EXPECT_EQ(
      give({.kind = Kind::kBroadcast, .root = 1, .count = 14}, at_2000, at_2000),
      absl::StrCat("broadcast 0x2000 0x2000 count=14 type=", ncclUint8, " root=1 0xc0 0x50\n"));
  EXPECT_EQ(give({.kind = Kind::kAllGather, .count = 14}, at_2000, at_1000),
            absl::StrCat("all_gather 0x2000 0x1000 count=14 type=", ncclUint8, " 0xc0 0x50\n"));
}

TEST_F(NcclCallsTest, EveryTypeHasItsName) {
  const std::pair<DataType, ncclDataType_t> types[] = {
      {DataType::kFloat32, ncclFloat32}, {DataType::kFloat64, ncclFloat64},
      {DataType::kFloat16, ncclFloat16}, {DataType::kBfloat16, ncclBfloat16},
      {DataType::kInt32, ncclInt32},     {DataType::kInt64, ncclInt64},
      {DataType::kUint8, ncclUint8}};
  for (const auto& [ours, theirs] : types) {
    const CallShape shape{.kind = CallShape::Kind::kAllReduce, .type = ours, .count = 1};
    EXPECT_TRUE(api_->Give(communicator_, {.shape = shape}, stream_).ok());
    EXPECT_THAT(ToNccl(), HasSubstr(absl::StrCat(" type=", theirs, " "))) << NameOf(ours);
  }
}

TEST_F(NcclCallsTest, AnExchangeIsOneGroupOfItsPieces) {
  const absl::Span<uint8_t> bytes(static_cast<uint8_t*>(At(0x1000)), 5);
  const absl::Span<uint8_t> room(static_cast<uint8_t*>(At(0x2000)), 3);
  const Collective exchange{
      .shape = {.kind = CallShape::Kind::kExchange}, .sent = {{}, bytes}, .received = {room, {}}};
  EXPECT_TRUE(api_->Give(communicator_, exchange, stream_).ok());
  EXPECT_EQ(ToNccl(), absl::StrCat("group\nreceive 0x2000 count=3 type=", ncclUint8,
                                   " from=0 0xc0 0x50\nsend 0x1000 count=5 type=", ncclUint8,
                                   " to=1 0xc0 0x50\nend\n"));
}

TEST_F(NcclCallsTest, ItsStreamGoesFirstAndWaitsForNoDefaultOne) {
  EXPECT_EQ(api_->MakeStream().value(), stream_);
  EXPECT_EQ(ToCuda(), absl::StrCat("stream flags=", cudaStreamNonBlocking, " priority=-5\n"));
}

TEST_F(NcclCallsTest, EventsHaveNoTimesAndAnEarlyQuestionIsNoError) {
  const auto event = api_->Record(stream_);
  EXPECT_EQ(ToCuda(), absl::StrCat("event flags=", cudaEventDisableTiming, "\nrecord 0xe0 0x50\n"));
  Answer(ncclSuccess, ncclSuccess, cudaErrorNotReady);
  EXPECT_FALSE(api_->Passed(event.value()).value());
  Answer();
  EXPECT_TRUE(api_->Passed(event.value()).value());
  EXPECT_TRUE(api_->WaitOnStream(stream_, event.value()).ok());
  EXPECT_EQ(ToCuda(), "wait 0x50 0xe0 flags=0\n");
}

TEST_F(NcclCallsTest, AnErrorNamesTheCallAndTheDevice) {
  Answer(ncclSuccess, ncclSuccess, cudaErrorIllegalAddress);
  EXPECT_EQ(api_->Passed(At(0xe0)).status(),
            absl::InternalError("CUDA: cudaEventQuery on device 0: an error of CUDA's"));
  EXPECT_TRUE(api_->UseDevice(3).ok());
  EXPECT_EQ(api_->Passed(At(0xe0)).status(),
            absl::InternalError("CUDA: cudaEventQuery on device 3: an error of CUDA's"));
}

TEST_F(NcclCallsTest, ACopyIsBetweenAnyMemoriesAndDoneWhenItReturns) {
  EXPECT_TRUE(
      api_->Copy(static_cast<uint8_t*>(At(0x10)), 5, static_cast<uint8_t*>(At(0x20)), stream_)
          .ok());
  EXPECT_EQ(ToCuda(),
            absl::StrCat("copy 0x20 0x10 bytes=5 kind=", cudaMemcpyDefault, " 0x50\nawait 0x50\n"));
}

TEST_F(NcclCallsTest, ACopyAndZerosOnAStreamReturnAtOnce) {
  auto* const to = static_cast<uint8_t*>(At(0x20));
  EXPECT_TRUE(api_->CopyOnStream(static_cast<uint8_t*>(At(0x10)), 5, to, stream_).ok());
  EXPECT_TRUE(api_->ZeroOnStream(to, 7, stream_).ok());
  EXPECT_EQ(ToCuda(), absl::StrCat("copy 0x20 0x10 bytes=5 kind=", cudaMemcpyDefault,
                                   " 0x50\nset 0x20 0 bytes=7 0x50\n"));
}

TEST_F(NcclCallsTest, GpusAreCountedChosenAndAwaitedWithoutNccl) {
  const std::unique_ptr<CudaApi> cuda = LoadCuda().value();
  EXPECT_EQ(cuda->DeviceCount().value(), 4);
  EXPECT_TRUE(cuda->UseDevice(2).ok());
  EXPECT_EQ(cuda->ChosenDevice().value(), 3);  // the runtime's word counts
  EXPECT_TRUE(cuda->AwaitDevice().ok());
  EXPECT_EQ(ToCuda(), "device 2\nawait device\n");
  EXPECT_EQ(ToNccl(), "");
}

TEST_F(NcclCallsTest, TheProgramDoesNotFindAnErrorAgain) {
  EXPECT_FALSE(api_->Allocate(size_t{1} << 50).ok());
  EXPECT_EQ(ToCuda(), "forget error\n");
}

TEST_F(NcclCallsTest, MemoryIsThatOfItsGpuAndManagedMemoryThatOfTheChosenOne) {
  EXPECT_TRUE(api_->UseDevice(2).ok());
  EXPECT_EQ(api_->DeviceOf(At(cudaMemoryTypeDevice)).value(), 6);
  EXPECT_EQ(api_->DeviceOf(At(cudaMemoryTypeManaged)).value(), 3);  // as cudaGetDevice says
  EXPECT_EQ(api_->DeviceOf(At(cudaMemoryTypeHost)).value(), std::nullopt);
  EXPECT_EQ(api_->DeviceOf(At(cudaMemoryTypeUnregistered)).value(), std::nullopt);
}

TEST_F(NcclCallsTest, AGpusPlaceIsItsAddressOnThePciBus) {
  EXPECT_EQ(api_->PlaceOf(0x1b).value(), "0000:1b:00.0");
}

TEST_F(NcclCallsTest, MemoryThatIsNotThereIsResourceExhausted) {
  EXPECT_EQ(api_->Allocate(8).value(), At(0xa0));
  EXPECT_TRUE(absl::IsResourceExhausted(api_->Allocate(size_t{1} << 50).status()));
}

}  // namespace
}  // namespace dp::engine
