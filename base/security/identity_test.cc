#include "base/security/identity.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

using testing::HasSubstr;

TEST(IdentityTest, EachIsAUriAndBack) {
  for (const Role role :
       {Role::kAdmin, Role::kUser, Role::kViewer, Role::kWorker, Role::kCoordinator}) {
    for (const char* name :
         {"ann", "node-7.rack_2", "o'neill/../root", "a%2fb", "jos\xc3\xa9", " "}) {
      const Identity identity{role, name};
      const auto back = ParseUri(ToUri(identity));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, identity);
    }
  }
  EXPECT_EQ(ToUri({Role::kUser, "o'neill"}), "spiffe://dp/user/o%27neill");
  EXPECT_EQ(ToString({Role::kWorker, "node7"}), "worker node7");
}

TEST(IdentityTest, WhatIsNoneIsNamed) {
  for (const char* uri :
       {"", "spiffe://dp/", "spiffe://dp/user", "spiffe://dp/user/", "spiffe://dp/root/ann",
        "spiffe://other/user/ann", "https://dp/user/ann", "spiffe://dp/user/a/b",
        "spiffe://dp/user/a%2", "spiffe://dp/user/a%zz", "spiffe://dp/user/a b"}) {
    const auto parsed = ParseUri(uri);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << uri;
    EXPECT_THAT(parsed.status().message(), HasSubstr(uri));
  }
}

TEST(IdentityTest, ANameOfAPersonMayLookLikeOneOfAnotherKind) {
  for (const char* kind : {"admin", "user", "viewer", "worker", "coordinator", "person"}) {
    EXPECT_EQ(KindBefore(absl::StrCat(kind, "/ann")), kind);
    EXPECT_EQ(KindBefore(kind), "");
  }
  for (const char* name : {"ann", "ann/worker", "spiffe://example.org/worker/w1", "/worker/w1"}) {
    EXPECT_EQ(KindBefore(name), "") << name;
  }
}

}  // namespace
}  // namespace dp::security
