#include "server/core/access/access_list.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::core {
namespace {

using security::Identity;
using security::Role;
using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const Identity kAnn{Role::kUser, "ann"};

class AccessListTest : public testing::Test {
 protected:
  absl::StatusOr<Role> RoleAfter(absl::Duration issued) const {
    return list_.RoleOf(kAnn, kNow + issued);
  }

  AccessList list_;
};

TEST_F(AccessListTest, WithoutADecisionTheCertificateCounts) {
  EXPECT_EQ(*list_.RoleOf(kAnn, kNow), Role::kUser);
  EXPECT_EQ(list_.ValidAfter(kAnn), absl::InfinitePast());
}

TEST_F(AccessListTest, AGrantCountsMoreThanTheCertificate) {
  EXPECT_TRUE(*list_.Grant("ann", Role::kViewer));
  EXPECT_FALSE(*list_.Grant("ann", Role::kViewer));
  EXPECT_EQ(*RoleAfter(absl::ZeroDuration()), Role::kViewer);
  EXPECT_TRUE(absl::IsInvalidArgument(list_.Grant("ann", Role::kWorker).status()));
}

TEST_F(AccessListTest, ARevocationEndsEarlierCertificatesAndNoLaterOnes) {
  ASSERT_TRUE(list_.Grant("ann", Role::kAdmin).ok());
  ASSERT_TRUE(list_.Revoke(kAnn, kNow).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(RoleAfter(absl::ZeroDuration()).status()));
  EXPECT_EQ(*RoleAfter(absl::Seconds(1)), Role::kUser);
  EXPECT_GT(list_.ValidAfter(kAnn), kNow);
  // Another role in a stolen certificate does not help.
  EXPECT_FALSE(list_.RoleOf({Role::kAdmin, "ann"}, kNow).ok());
  EXPECT_TRUE(list_.RoleOf({Role::kWorker, "ann"}, kNow).ok());
}

TEST_F(AccessListTest, AGrantDoesNotBringBackARevokedCertificate) {
  ASSERT_TRUE(list_.Revoke(kAnn, kNow).ok());
  ASSERT_TRUE(list_.Grant("ann", Role::kUser).ok());
  EXPECT_FALSE(RoleAfter(absl::ZeroDuration()).ok());
}

TEST_F(AccessListTest, SaysWhoHasJoinedAgainUntilTheNextRevocation) {
  list_.NoteJoin(kAnn, kNow);
  EXPECT_TRUE(list_.contents().people.empty());
  ASSERT_TRUE(list_.Revoke(kAnn, kNow).ok());
  const Holder& ann = list_.contents().people.at("ann");
  EXPECT_FALSE(ann.joined_again());
  list_.NoteJoin(kAnn, kNow + absl::Seconds(1));
  EXPECT_TRUE(ann.joined_again());
  ASSERT_TRUE(list_.Revoke(kAnn, kNow + absl::Seconds(2)).ok());
  EXPECT_FALSE(ann.joined_again());
}

TEST_F(AccessListTest, ARevocationEndsEarlierTokensAndNoLaterOnes) {
  EXPECT_TRUE(list_.CheckToken(kAnn, kNow).ok());
  ASSERT_TRUE(list_.Revoke(kAnn, kNow).ok());
  const absl::Status earlier = list_.CheckToken(kAnn, kNow);
  EXPECT_TRUE(absl::IsUnauthenticated(earlier));
  EXPECT_THAT(earlier.message(), HasSubstr("the token is void, because the access of user ann"));
  EXPECT_TRUE(list_.CheckToken(kAnn, kNow + absl::Seconds(1)).ok());
}

TEST_F(AccessListTest, ATokenIsGoodForSoManyUses) {
  const absl::Time end = kNow + absl::Hours(1);
  EXPECT_TRUE(list_.UseToken("a", 2, end, kNow).ok());
  EXPECT_TRUE(list_.UseToken("a", 2, end, kNow).ok());
  EXPECT_THAT(list_.UseToken("a", 2, end, kNow).message(), HasSubstr("2 uses"));
  EXPECT_TRUE(list_.UseToken("any number", 0, end, kNow).ok());
  EXPECT_EQ(list_.contents().tokens.size(), 2u);
  ASSERT_TRUE(list_.UseToken("b", 1, end + absl::Hours(1), end).ok());
  EXPECT_EQ(list_.contents().tokens.size(), 1u);  // the others have expired
}

// Whoever has a join token may ask for any number of names.
class GivenNamesTest : public AccessListTest {
 protected:
  // Gives names until there are no more; returns how many.
  size_t GiveAll(absl::FunctionRef<std::string(size_t)> host) {
    for (size_t given = 0;; ++given) {
      const auto name = list_.FreeName(host(given), [](const std::string&) { return false; });
      if (!name.ok()) return given;
      list_.NoteName(*name);
    }
  }
};

TEST_F(GivenNamesTest, TheyLeaveRoomForRevocations) {
  EXPECT_EQ(GiveAll([](size_t given) { return absl::StrCat("host", given); }),
            AccessList::kNamesGivenMax);
  EXPECT_TRUE(list_.Revoke({Role::kWorker, "thief"}, kNow).ok());
}

TEST_F(GivenNamesTest, AHostGetsSoManyAsCanBeSearched) {
  EXPECT_EQ(GiveAll([](size_t) { return "host"; }),
            static_cast<size_t>(AccessList::kNamesOfHostMax));
  EXPECT_TRUE(list_.FreeName("another", [](const std::string&) { return false; }).ok());
}

}  // namespace
}  // namespace dp::core
