#include "server/parameters/parameter_sets.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SetKey kOfJob7 = {.job = JobId(7)};
const SetKey kGpt2 = {.name = "gpt2"};

class ParameterSetsTest : public ::testing::Test {
 protected:
  void Limit(const ParameterSets::Limits& limits) {
    sets_ = std::make_unique<ParameterSets>(limits);
  }
  void SetUp() override { Limit({}); }

  // Returns the number of the new version, or the error.
  std::string Add(const SetKey& key, const std::string& owner = "", bool of_table = false) {
    const auto place = sets_->Begin(key, owner);
    if (!place.ok()) return std::string(place.status().message());
    ParameterSets::Version version{.file_bytes = 10, .of_table = of_table};
    version.description.set_job(key.job.value());
    version.description.set_name(key.name);
    version.description.set_owner(owner);
    version.description.set_version(sets_->NextNumber(key));
    const uint64_t number = version.description.version();
    EXPECT_TRUE(sets_->Add(key, std::move(version)).ok());
    return absl::StrCat(number);
  }
  void Add(const SetKey& key, int versions) {
    for (int i = 0; i < versions; ++i) Add(key);
  }
  std::vector<uint64_t> Versions(const SetKey& key, uint64_t before, size_t max) {
    std::vector<uint64_t> numbers;
    for (const auto& each : *sets_->Versions(key, before, max)) numbers.push_back(each.version());
    return numbers;
  }
  std::vector<std::string> Latest(const SetKey& after, size_t max) {
    std::vector<std::string> sets;
    for (const auto& each : sets_->Latest(after, max)) {
      sets.push_back(SetKey{JobId(each.job()), each.name()}.ToString());
    }
    return sets;
  }

  std::unique_ptr<ParameterSets> sets_;
};

TEST_F(ParameterSetsTest, SetsAreBoundedAndThoseThatAreThereGoOn) {
  Limit({.sets = 2});
  Add(kOfJob7, 1);
  Add(kGpt2, 1);
  EXPECT_EQ(Add({.name = "third"}),
            "set third: the coordinator keeps 2 sets of parameters, which is the limit; remove "
            "what nobody needs (dpctl weights rm)");
  EXPECT_EQ(Add(kGpt2), "2");
  sets_->Erase(kOfJob7, {1}, "");
  EXPECT_EQ(Add({.name = "third"}), "1");
}

TEST_F(ParameterSetsTest, ASetThatIsBeingPushedCounts) {
  Limit({.sets = 1});
  {
    const auto place = sets_->Begin(kGpt2, "");
    EXPECT_THAT(Add(kOfJob7), HasSubstr("which is the limit"));
  }
  EXPECT_EQ(Add(kOfJob7), "1");
}

TEST_F(ParameterSetsTest, VersionsOfASetAreBoundedButStatesOfTables) {
  Limit({.versions_of_set = 2});
  Add(kOfJob7, 1);
  Add(kOfJob7, "", /*of_table=*/true);
  Add(kOfJob7, 1);
  EXPECT_THAT(Add(kOfJob7), HasSubstr("job 7: it has 2 versions, or pushes that go on"));
  sets_->Erase(kOfJob7, {1}, "");
  const auto place = sets_->Begin(kOfJob7, "");
  EXPECT_TRUE(place.ok());
  EXPECT_THAT(Add(kOfJob7), HasSubstr("which is the limit"));
}

TEST_F(ParameterSetsTest, VersionsOfAllSetsAreBounded) {
  Limit({.versions = 3});
  Add(kOfJob7, 2);
  Add(kGpt2, 1);
  EXPECT_THAT(Add(kOfJob7), HasSubstr("the coordinator keeps 3 versions of parameters"));
  sets_->Erase(kGpt2, {1}, "");
  EXPECT_EQ(Add(kOfJob7), "3");
}

TEST_F(ParameterSetsTest, NumbersOfSetsThatAreGoneAreBounded) {
  Add(kGpt2, 3);
  sets_->Erase(kGpt2, {1, 2, 3}, "");
  EXPECT_EQ(Add(kGpt2), "4");
  sets_->Erase(kGpt2, {4}, "");
  for (size_t i = 0; i < ParameterSets::kGoneKept; ++i) {
    const SetKey other = {.name = absl::StrCat("other", i)};
    Add(other, 1);
    sets_->Erase(other, {1}, "");
  }
  EXPECT_EQ(Add(kGpt2), "1");
}

TEST_F(ParameterSetsTest, WhoBeginsTheFirstVersionOwnsTheSet) {
  {
    const auto place = sets_->Begin(kGpt2, "ann");
    EXPECT_EQ(sets_->OwnerOf(kGpt2), "ann");
    EXPECT_EQ(Add(kGpt2, "bob"), "set gpt2 has become that of another user; push again");
  }
  EXPECT_EQ(sets_->OwnerOf(kGpt2), "");
  EXPECT_EQ(Add(kGpt2, "bob"), "1");
}

TEST_F(ParameterSetsTest, ListsComeInParts) {
  for (const SetKey& key : {SetKey{.name = "b"}, SetKey{.job = JobId(12)}, SetKey{.name = "a"},
                            SetKey{.job = JobId(7)}, SetKey{.name = "c"}}) {
    Add(key, 1);
  }
  EXPECT_THAT(Latest({}, 3), ElementsAre("job 7", "job 12", "set a"));
  EXPECT_THAT(Latest(kOfJob7, 1), ElementsAre("job 12"));
  EXPECT_THAT(Latest({.name = "a"}, 3), ElementsAre("set b", "set c"));
  EXPECT_THAT(Latest({.name = "c"}, 3), ElementsAre());
  Add(kOfJob7, 4);
  EXPECT_THAT(Versions(kOfJob7, 0, 2), ElementsAre(5, 4));
  EXPECT_THAT(Versions(kOfJob7, 4, 2), ElementsAre(3, 2));
  EXPECT_THAT(Versions(kOfJob7, 2, 2), ElementsAre(1));
  EXPECT_THAT(Versions(kOfJob7, 1, 2), ElementsAre());
}

}  // namespace
}  // namespace dp::server
