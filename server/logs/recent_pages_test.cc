#include "server/logs/recent_pages.h"

#include "gtest/gtest.h"

namespace dp::server {
namespace {

constexpr JobId kFollowed(7);
constexpr uint64_t kPageVersion = 3;

LogPage APage() { return {.version = kPageVersion}; }

TEST(RecentPagesTest, APageAnswersTheSameQueryOfTheSameLogs) {
  RecentPages pages;
  const auto kept = pages.Keep(kFollowed, {.tail_lines = 1}, APage());
  EXPECT_EQ(pages.Find(kFollowed, {.tail_lines = 1}, kPageVersion), kept);
  EXPECT_EQ(pages.Find(kFollowed, {.tail_lines = 2}, kPageVersion), nullptr);
  EXPECT_EQ(pages.Find(JobId(8), {.tail_lines = 1}, kPageVersion), nullptr);
  EXPECT_EQ(pages.Find(kFollowed, {.tail_lines = 1}, kPageVersion + 1), nullptr);
}

TEST(RecentPagesTest, TheOldestPageMakesRoom) {
  RecentPages pages;
  const std::weak_ptr<const LogPage> oldest = pages.Keep(kFollowed, {}, APage());
  for (size_t i = 1; i < RecentPages::kPagesMax; ++i) {
    pages.Keep(kFollowed, {.tail_lines = static_cast<int>(i)}, APage());
  }
  EXPECT_NE(pages.Find(kFollowed, {}, kPageVersion), nullptr);
  pages.Keep(JobId(8), {}, APage());
  EXPECT_TRUE(oldest.expired());
}

}  // namespace
}  // namespace dp::server
