#include "server/journal/sqlite_database.h"

#include <string>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

TEST(SqliteDatabaseTest, AValueThatCannotBeBoundIsAnError) {
  const ScratchDir scratch;
  const auto database =
      SqliteDatabase::Open((scratch.path() / "file").string(), /*application=*/1, {});
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE((*database)->Execute("CREATE TABLE numbers (number INTEGER)").ok());
  const auto insert = (*database)->Compile("INSERT INTO numbers VALUES (?)");
  ASSERT_TRUE(insert.ok()) << insert.status();
  EXPECT_TRUE((*database)->Run(*insert, {int64_t{1}}).ok());
  const absl::Status status = (*database)->Run(*insert, {int64_t{2}, int64_t{3}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("out of range"));
  EXPECT_EQ((*database)->Number("SELECT count(*) FROM numbers").value(), 1);
}

TEST(SqliteDatabaseTest, ADatabaseThatCanHaveNoWriteAheadLogIsRefused) {
  const auto database = SqliteDatabase::Open(":memory:", /*application=*/1, {});
  EXPECT_EQ(database.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(database.status().message()),
              ::testing::HasSubstr("its write-ahead log cannot be opened"));
}

}  // namespace
}  // namespace dp::server
