#include "server/parameters/parameter_store.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/checksum/crc32c.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

const SetKey kJob7 = {.job = JobId(7)};
const SetKey kNamed = {.name = "gpt2"};

v1::ParameterVersion OneTensor(uint64_t bytes) {
  v1::ParameterVersion version;
  v1::ParameterTensor* const tensor = version.add_tensors();
  tensor->set_name("w");
  tensor->set_type("U8");
  tensor->add_shape(static_cast<int64_t>(bytes));
  tensor->set_bytes(bytes);
  return version;
}

class ParameterStoreTest : public ::testing::Test {
 protected:
  void Open(const ParameterLimits& limits = {}, std::function<uint64_t()> available = {}) {
    store_ = std::make_unique<ParameterStore>(scratch_.path() / "parameters", limits, available);
    ASSERT_EQ(store_->Load(), absl::OkStatus());
  }
  void SetUp() override { Open(); }

  absl::StatusOr<v1::ParameterVersion> Push(const SetKey& key, const std::string& data,
                                            const std::string& request,
                                            parameters::StoredTable* table = nullptr) {
    auto push = store_->Begin(key, OneTensor(data.size()), request);
    if (!push.ok()) return push.status();
    const absl::Status added = (*push)->Append(data, ExtendCrc32c(0, data));
    if (!added.ok()) return added;
    return (*push)->Finish(table);
  }
  std::string Read(const SetKey& key, uint64_t version) {
    const auto reader = store_->Open(key, version);
    return reader.ok() ? *reader->Chunk(0, /*check=*/true) : reader.status().ToString();
  }
  std::vector<uint64_t> Versions(const SetKey& key) {
    std::vector<uint64_t> numbers;
    const auto versions = store_->Versions(key);
    if (versions.ok()) {
      for (const auto& each : *versions) numbers.push_back(each.version());
    }
    return numbers;
  }

  const ScratchDir scratch_;
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(ParameterStoreTest, EachPushAddsAVersion) {
  EXPECT_EQ(Push(kJob7, "one", "a")->version(), 1u);
  EXPECT_EQ(Push(kJob7, "two", "b")->version(), 2u);
  EXPECT_EQ(Push(kNamed, "other", "c")->version(), 1u);
  EXPECT_EQ(Read(kJob7, 0), "two");
  EXPECT_EQ(Read(kJob7, 1), "one");
  EXPECT_EQ(Read(kNamed, 0), "other");
  EXPECT_THAT(Versions(kJob7), testing::ElementsAre(2, 1));
  EXPECT_EQ(store_->Latest().size(), 2u);
}

TEST_F(ParameterStoreTest, ARepeatedPushAddsNothing) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  EXPECT_EQ(Push(kJob7, "one", "a").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->FindPushed(kJob7, "a")->version(), 1u);
  EXPECT_EQ(store_->FindPushed(kJob7, "b"), std::nullopt);
}

TEST_F(ParameterStoreTest, ARestartFindsWhatWasFinished) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  const uint64_t bytes = store_->bytes();
  std::ofstream(scratch_.path() / "parameters" / "job-7" / "9.new") << "half a version";
  Open();
  EXPECT_EQ(Read(kJob7, 0), "one");
  EXPECT_LE(store_->bytes(), bytes);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "parameters" / "job-7" / "9.new"));
  EXPECT_EQ(Push(kJob7, "one", "a").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Push(kJob7, "two", "b")->version(), 2u);
}

TEST_F(ParameterStoreTest, ADamagedFileIsLeftAndItsNumberIsNotTaken) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  std::ofstream(scratch_.path() / "parameters" / "job-7" / "1.params") << "dpparam1";
  Open();
  EXPECT_TRUE(absl::IsNotFound(store_->Find(kJob7, 1).status()));
  EXPECT_EQ(Push(kJob7, "two", "b")->version(), 2u);
}

TEST_F(ParameterStoreTest, APushThatIsGivenUpLeavesNothing) {
  { const auto push = store_->Begin(kJob7, OneTensor(100), "a"); }
  EXPECT_EQ(store_->bytes(), 0u);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "parameters" / "job-7"));
}

TEST_F(ParameterStoreTest, DataMustBeAsAnnounced) {
  auto push = store_->Begin(kJob7, OneTensor(3), "a");
  EXPECT_EQ((*push)->Append("ab", ExtendCrc32c(0, "ab")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*push)->Finish().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*push)->Append("abc", ExtendCrc32c(0, "abc")), absl::OkStatus());
  EXPECT_THAT((*push)->Append("d", ExtendCrc32c(0, "abcd")).message(),
              HasSubstr("where 0 must come"));
}

TEST_F(ParameterStoreTest, APushBeyondTheBoundNamesTheFlag) {
  Open({.bytes_max = 10'000});
  ASSERT_TRUE(Push(kJob7, std::string(2'000, 'a'), "a").ok());
  const absl::Status refused = Push(kNamed, std::string(9'000, 'b'), "b").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("--parameters-bytes-max"));
  EXPECT_THAT(refused.message(), HasSubstr("set gpt2: no room for"));
  ASSERT_TRUE(store_->Remove(kJob7, 0).ok());
  EXPECT_EQ(store_->bytes(), 0u);
}

TEST_F(ParameterStoreTest, ADescriptionThatNoPullCouldSendIsRejected) {
  v1::ParameterVersion version;
  for (int i = 0; i < 39'000; ++i) version.add_tensors()->set_name(std::string(500, 'n'));
  EXPECT_THAT(store_->Begin(kJob7, version, "a").status().message(),
              HasSubstr("give at most 18874368"));
}

TEST_F(ParameterStoreTest, PushesLeaveTheReserveOfTheDisk) {
  Open({.disk_reserve = 1'000'000}, [] { return uint64_t{1'010'000}; });
  EXPECT_TRUE(Push(kJob7, "small", "a").ok());
  EXPECT_THAT(Push(kJob7, std::string(20'000, 'a'), "b").status().message(),
              HasSubstr("the disk of --data-dir has 10000 bytes beside its reserve"));
}

TEST_F(ParameterStoreTest, PushesSideBySideLeaveTheReserveOfTheDisk) {
  Open({.disk_reserve = 1'000'000}, [] { return uint64_t{1'050'000}; });
  const std::string data(30'000, 'a');
  auto first = store_->Begin(kJob7, OneTensor(data.size()), "a");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Push(kNamed, data, "b").status().message(),
              HasSubstr("that other pushes will write"));
  // The disk now counts them by itself.
  ASSERT_EQ((*first)->Append(data, ExtendCrc32c(0, data)), absl::OkStatus());
  EXPECT_TRUE(store_->Begin(kNamed, OneTensor(data.size()), "b").ok());
  first->reset();
  EXPECT_EQ(store_->bytes(), 0u);
}

TEST_F(ParameterStoreTest, RemovedVersionsAreGoneAndTheirNumbersAreNotTakenAgain) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  ASSERT_TRUE(Push(kJob7, "two", "b").ok());
  ASSERT_TRUE(store_->Remove(kJob7, 2).ok());
  EXPECT_THAT(Versions(kJob7), testing::ElementsAre(1));
  EXPECT_EQ(Push(kJob7, "three", "c")->version(), 3u);
  ASSERT_TRUE(store_->Remove(kJob7, 0).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Remove(kJob7, 0).status()));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "parameters" / "job-7"));
}

TEST_F(ParameterStoreTest, APushThatGoesOnDoesNotBringBackTheSetOfAJobThatIsGone) {
  auto push = store_->Begin(kJob7, OneTensor(3), "a");
  ASSERT_TRUE((*push)->Append("abc", ExtendCrc32c(0, "abc")).ok());
  EXPECT_EQ(store_->Drop(JobId(7)), absl::OkStatus());
  EXPECT_EQ(Push(kJob7, "two", "b").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*push)->Finish().status().code(), absl::StatusCode::kAborted);
  push->reset();
  EXPECT_TRUE(store_->jobs().empty());
  EXPECT_EQ(store_->bytes(), 0u);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "parameters" / "job-7"));
  EXPECT_TRUE(Push(kJob7, "two", "b").ok());
}

TEST_F(ParameterStoreTest, ARepeatedRemovalGetsTheAnswerOfTheFirst) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  const auto first = store_->Remove(kJob7, 0, "removal");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(store_->Remove(kJob7, 0, "removal"), first);
  ASSERT_TRUE(Push(kJob7, "two", "b").ok());
  EXPECT_EQ(store_->Remove(kJob7, 0, "removal"), first);
  EXPECT_EQ(Read(kJob7, 0), "two");
  EXPECT_TRUE(absl::IsNotFound(store_->Remove(kNamed, 0, "removal").status()));
}

TEST_F(ParameterStoreTest, AVersionWhoseFileCannotBeRemovedStays) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  ASSERT_TRUE(Push(kJob7, "two", "b").ok());
  const uint64_t bytes = store_->bytes();
  const std::filesystem::path file = scratch_.path() / "parameters" / "job-7" / "1.params";
  std::filesystem::remove(file);
  std::filesystem::create_directories(file / "in the way");
  EXPECT_EQ(store_->Remove(kJob7, 0).status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Versions(kJob7), testing::ElementsAre(1));
  EXPECT_GT(store_->bytes(), 0u);
  EXPECT_LT(store_->bytes(), bytes);
  std::filesystem::remove(file / "in the way");
  EXPECT_TRUE(store_->Remove(kJob7, 0).ok());
  EXPECT_EQ(store_->bytes(), 0u);
}

TEST_F(ParameterStoreTest, StatesOfATableReplaceEachOther) {
  ASSERT_TRUE(Push(kJob7, "pushed", "a").ok());
  for (const char* request : {"b", "c", "d"}) {
    parameters::StoredTable table;
    table.add_pushed(1);
    ASSERT_TRUE(Push(kJob7, request, request, &table).ok());
  }
  EXPECT_THAT(Versions(kJob7), testing::ElementsAre(4, 3, 1));
}

TEST_F(ParameterStoreTest, AWaitEndsWithTheNextVersion) {
  int woken = 0;
  store_->Await(kJob7, 1, [&] { ++woken; });
  const ParameterStore::Watch dropped = store_->Await(kJob7, 0, [&] { woken += 100; });
  store_->Forget(dropped);
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  EXPECT_EQ(woken, 0);
  ASSERT_TRUE(Push(kJob7, "two", "b").ok());
  EXPECT_EQ(woken, 1);
  store_->Await(kJob7, 1, [&] { ++woken; });
  EXPECT_EQ(woken, 2);
}

TEST_F(ParameterStoreTest, ASetMovedAsideIsNoSetAnyMore) {
  ASSERT_TRUE(Push(kJob7, "one", "a").ok());
  ASSERT_EQ(store_->SetAside(JobId(7)), absl::OkStatus());
  EXPECT_TRUE(store_->jobs().empty());
  EXPECT_EQ(store_->bytes(), 0u);
  testing::internal::CaptureStderr();
  Open();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(store_->jobs().empty());
}

TEST_F(ParameterStoreTest, AStateThatCannotBeRemovedIsReportedAsThat) {
  parameters::StoredTable table;
  for (const char* request : {"a", "b"}) {
    table.add_pushed(1);
    ASSERT_TRUE(Push(kJob7, request, request, &table).ok());
  }
  const std::filesystem::path file = scratch_.path() / "parameters" / "job-7" / "1.params";
  std::filesystem::remove(file);
  std::filesystem::create_directories(file / "in the way");
  table.add_pushed(1);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Push(kJob7, "c", "c", &table).ok());
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, HasSubstr("event=parameters_not_removed"));
  EXPECT_THAT(logged, HasSubstr("job-7/1.params"));
}

}  // namespace
}  // namespace dp::server
