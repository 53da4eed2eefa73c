#include "worker/engine/collectives/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

TEST(SharedSegmentTest, TwoMappingsAreOneMemory) {
  const auto file = SharedSegment::MakeFile(2);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto one = SharedSegment::Map(*file, 2), other = SharedSegment::Map(*file, 2);
  ASSERT_TRUE(one.ok() && other.ok());
  one->record(1).ticks = 7;
  one->slot(1, 3)[kSlotBytes - 1] = 42;
  EXPECT_EQ(other->record(1).ticks, 7u);
  EXPECT_EQ(other->slot(1, 3)[kSlotBytes - 1], 42);
}

TEST(SharedSegmentTest, NewRanksHaveMadeNoTickAndNotLeft) {
  const auto segment = SharedSegment::Map(*SharedSegment::MakeFile(3), 3);
  ASSERT_TRUE(segment.ok());
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(segment->record(r).ticks, 0u);
    EXPECT_EQ(segment->record(r).left, 0u);
  }
}

TEST(SharedSegmentTest, EverySlotIsAnotherPlaceAndChunksTakeTurns) {
  const auto segment = SharedSegment::Map(*SharedSegment::MakeFile(3), 3);
  ASSERT_TRUE(segment.ok());
  std::set<uint8_t*> slots;
  for (int r = 0; r < 3; ++r)
    for (uint64_t chunk = 0; chunk < kSlotsPerRank; ++chunk) slots.insert(segment->slot(r, chunk));
  EXPECT_EQ(slots.size(), 3 * kSlotsPerRank);
  for (auto it = slots.begin(); std::next(it) != slots.end(); ++it)
    EXPECT_GE(*std::next(it) - *it, ssize_t(kSlotBytes));
  EXPECT_EQ(segment->slot(2, 1), segment->slot(2, 1 + kSlotsPerRank));
}

TEST(SharedSegmentTest, TooLittleAddressSpaceIsNamedWithItsSizeAndTheRemedy) {
  constexpr int kBeyond48Bits = 20'000;
  const auto segment = SharedSegment::Map(*SharedSegment::MakeFile(kBeyond48Bits), kBeyond48Bits);
  EXPECT_EQ(segment.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(segment.status().message()),
              HasSubstr("20000 ranks share: Cannot allocate memory; it takes 327760"));
  EXPECT_THAT(std::string(segment.status().message()),
              HasSubstr("so raise ulimit -v, or use backend gloo"));
}

TEST(SharedSegmentTest, NobodyCanChangeTheSize) {
  const auto file = SharedSegment::MakeFile(2);
  EXPECT_NE(ftruncate(file->get(), 0), 0);
  EXPECT_NE(ftruncate(file->get(), off_t{1} << 30), 0);
  EXPECT_NE(fcntl(file->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedSegmentTest, AFileOfAnotherSizeIsRefused) {
  const auto file = SharedSegment::MakeFile(2);
  EXPECT_EQ(SharedSegment::Map(*file, 3).status().code(), absl::StatusCode::kInternal);
}

TEST(SharedSegmentTest, AFileWhoseSizeCouldChangeIsRefused) {
  struct stat sealed {};
  ASSERT_EQ(fstat(SharedSegment::MakeFile(2)->get(), &sealed), 0);
  const FileDescriptor open_file(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(open_file.get(), sealed.st_size), 0);
  EXPECT_EQ(SharedSegment::Map(open_file, 2).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace dp::engine
