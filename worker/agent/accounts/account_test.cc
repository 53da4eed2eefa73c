#include "worker/agent/accounts/account.h"

#include <string>

#include "base/bounded_queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/accounts/account_lookup.h"

namespace dp::worker {
namespace {

TEST(AccountTest, TheSystemsAccountOfRootIsFound) {
  const auto root = FindAccount("root");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->uid, 0u);
  EXPECT_EQ(root->home, "/root");
  EXPECT_THAT(root->groups, testing::Contains(0u));
}

TEST(AccountTest, AnotherSpellingIsAnotherAccount) {
  for (const char* name : {"Root", "root ", "", "0", "no-such-account", "../root", "root:x"}) {
    EXPECT_EQ(FindAccount(name).status().code(), absl::StatusCode::kNotFound) << name;
  }
}

TEST(AccountLookupTest, EachQuestionIsAnsweredInTurnOnAThreadOfItsOwn) {
  BoundedQueue<std::string> heard(10);
  const auto asker = std::this_thread::get_id();
  AccountLookup lookup(
      [](const std::string& name) -> absl::StatusOr<Account> {
        if (name == "bob") return absl::NotFoundError("no bob");
        return Account{.name = name, .uid = 1000};
      },
      [&](const std::string& name, const absl::StatusOr<Account>& account) {
        EXPECT_NE(std::this_thread::get_id(), asker);
        std::string answer = name + (account.ok() ? " found" : " missing");
        EXPECT_TRUE(heard.TryPush(answer));
      });
  lookup.Ask("ann");
  lookup.Ask("bob");
  std::vector<std::string> answers;
  while (answers.size() < 2) {
    for (auto& each : heard.DrainFor(absl::Seconds(20))) answers.push_back(std::move(each));
  }
  EXPECT_THAT(answers, testing::ElementsAre("ann found", "bob missing"));
}

}  // namespace
}  // namespace dp::worker
