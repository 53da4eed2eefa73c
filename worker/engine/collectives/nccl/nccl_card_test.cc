#include "worker/engine/collectives/nccl/nccl_card.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

namespace dp::engine {
namespace {

NcclCard On(const std::string& host, const std::string& gpu, int device = 0) {
  return {.host = host, .gpu = gpu, .device = device, .links = "", .id = ""};
}

TEST(NcclCardTest, ACardCarriesBinaryIds) {
  const std::string id("a\n\0b\n", 5);
  const NcclCard read =
      DecodeNcclCard(
          Encode(
              {.host = "h", .gpu = "0000:1b:00.0", .device = 3, .links = "here|there", .id = id}))
          .value();
  EXPECT_EQ(read.host, "h");
  EXPECT_EQ(read.gpu, "0000:1b:00.0");
  EXPECT_EQ(read.device, 3);
  EXPECT_EQ(read.links, "here|there");
  EXPECT_EQ(read.id, id);
}

TEST(NcclCardTest, ATextThatIsNoCardIsAnError) {
  for (const char* text : {"", "h\ng\n3", "h\ng\nx\n\n"})
    EXPECT_TRUE(absl::IsInternal(DecodeNcclCard(text).status())) << text;
}

TEST(NcclCardTest, OneGpuOfOneHostIsForOneRank) {
  EXPECT_TRUE(CheckAGpuEach({On("a", "1"), On("a", "2"), On("b", "1")}).ok());
  EXPECT_EQ(CheckAGpuEach({On("b", "1"), On("a", "7", 2), On("a", "7", 0), On("b", "1")}),
            absl::FailedPreconditionError("ranks 0, 3 share the GPU 1 of one host (device 0 of "
                                          "rank 0, device 0 of rank 3); give each rank a GPU of "
                                          "its own"));
}

TEST(NcclCardTest, RanksOfAnUnknownHostAreNotCompared) {
  EXPECT_TRUE(CheckAGpuEach({On("", "1"), On("", "1")}).ok());
}

// NCCL's variables, for one test.
class NcclCardVariablesTest : public ::testing::Test {
 protected:
  ~NcclCardVariablesTest() override {
    unsetenv("NCCL_HOSTID");
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  }
  NcclCard Card() { return CardOfThisRank(nccl_, 0).value(); }

  FakeNccl nccl_{FakeNccl::Anywhere};
};

TEST_F(NcclCardVariablesTest, ProcessesOfOneHostHaveOneHost) {
  EXPECT_EQ(Card().host, Card().host);
  EXPECT_FALSE(Card().host.empty());
}

TEST_F(NcclCardVariablesTest, AHostIdMakesAHostOfItsOwn) {
  setenv("NCCL_HOSTID", "left", 1);
  EXPECT_EQ(Card().host, "left");
}

TEST_F(NcclCardVariablesTest, RanksShareAGpuWhereNcclIsToldSo) {
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  EXPECT_FALSE(Card().host.empty());
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_TRUE(Card().host.empty());
}

}  // namespace
}  // namespace dp::engine
