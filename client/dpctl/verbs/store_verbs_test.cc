// store ls, get, set, watch and waiters.

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class StoreVerbsTest : public DpctlTest {
 protected:
  StoreVerbsTest() {
    AddJob(7, R"(state: JOB_STATE_RUNNING spec { name: "cnn" ranks: 2 } generation: 1)");
    AddJob(8, R"(state: JOB_STATE_PENDING spec { name: "big" ranks: 9 })");
  }

  // Runs a command, and returns its output alone.
  Result Fresh(const std::string& words) {
    out_.str("");
    err_.str("");
    return Dpctl(words);
  }
};

TEST_F(StoreVerbsTest, WhatIsSetIsListedAndGot) {
  EXPECT_EQ(Dpctl("store set 7 a/x 1").code, 0);
  EXPECT_EQ(Dpctl("store set cnn b 2").code, 0);
  EXPECT_EQ(Fresh("store ls 7").out, "a/x\nb\n");
  EXPECT_EQ(Fresh("store ls 7 a/").out, "a/x\n");
  EXPECT_EQ(Fresh("store get 7 b").out, "2");
  EXPECT_EQ(Fresh("store get 7 b -o json").out, "{\n  \"key\": \"b\",\n  \"value\": \"2\"\n}\n");
}

TEST_F(StoreVerbsTest, OddBytesOfKeysAreEscapedAndThoseOfValuesAreNot) {
  ASSERT_TRUE(coordinator_.values.Set(std::string("k\0\xff", 3), std::string("v\0", 2)).ok());
  ASSERT_TRUE(coordinator_.values.Set("raw", std::string("v\0\xff", 3)).ok());
  EXPECT_EQ(Fresh("store ls 7").out, "k\\x00\\xff\nraw\n");
  EXPECT_EQ(Fresh("store get 7 raw").out, std::string("v\0\xff", 3));
  out_tty_ = true;
  EXPECT_EQ(Fresh("store get 7 raw").out, "v\\x00\xff");
}

TEST_F(StoreVerbsTest, WordsThatBeginWithADashStandBehindTwo) {
  EXPECT_EQ(Dpctl("store set 7 offset -- -5").code, 0) << err_.str();
  EXPECT_EQ(Dpctl("store set 7 -- -key --value").code, 0) << err_.str();
  EXPECT_EQ(Fresh("store get 7 offset").out, "-5");
  EXPECT_EQ(Fresh("store get 7 -- -key").out, "--value");
  EXPECT_EQ(Fresh("store ls 7 -- -k").out, "-key\n");
  EXPECT_THAT(Fresh("store set 7 offset -x").err,
              HasSubstr("there is no flag '-x'; a word that begins with - stands behind --"));
  EXPECT_EQ(Fresh("store set 7 offset -- -5 -6").code, 2);
}

TEST_F(StoreVerbsTest, AKeyThatIsNotThereIs102AndOneThatNeverCame101) {
  const Result result = Dpctl("store get 7 gone");
  EXPECT_EQ(result.code, 102);
  EXPECT_EQ(result.err,
            "dpctl: the store of job 7 has no key 'gone'; 'dpctl store ls 7' lists all\n");
  clock_runs_ = true;
  EXPECT_EQ(Dpctl("store get 7 gone --wait 1ms").code, 101);
}

TEST_F(StoreVerbsTest, AJobThatWasNeverPlacedHasNoStore) {
  EXPECT_THAT(Dpctl("store ls 8").err, HasSubstr("job 8 has not been placed yet"));
  EXPECT_EQ(Dpctl("store ls 99").code, 102);
}

TEST_F(StoreVerbsTest, WatchPrintsTheValueWithItsVersion) {
  ASSERT_TRUE(coordinator_.values.Set("k", "new").ok());
  clock_runs_ = true;
  const Result result = Dpctl("store watch 7 k --for 90s");
  EXPECT_EQ(result.code, 101);
  EXPECT_EQ(result.out, "1 new\n");
}

TEST_F(StoreVerbsTest, AWatchEndsWellWithItsGeneration) {
  coordinator_.store_error = absl::AbortedError("job 7: generation 1 is over: finished");
  const Result result = Dpctl("store watch 7 k");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "dpctl: job 7: generation 1 is over: finished\n");
}

TEST_F(StoreVerbsTest, WaitersShowWhatTheyWaitForAndWhichRanksAreMissing) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(waiters { kind: KIND_KEY key: "a" keys: 3 who: "rank 1" waiting { seconds: 62 } }
         waiters { kind: KIND_BARRIER key: "b" keys: 1 who: "rank 0" waiting { seconds: 5 }
                   arrived: 2 count: 4 missing_ranks: 1 missing_ranks: 3 })",
      &coordinator_.waiters));
  EXPECT_EQ(Dpctl("store waiters 7").out,
            "FOR      KEY           WHO     WAITING  ARRIVED  MISSING RANKS\n"
            "key      a and 2 more  rank 1  1m2s     -        -\n"
            "barrier  b             rank 0  5s       2 of 4   1,3\n");
  EXPECT_THAT(Fresh("store waiters 7 -o json").out, HasSubstr("\"waitingMs\": 62000"));
}

TEST_F(StoreVerbsTest, StoreAloneIsUsage) { EXPECT_EQ(Dpctl("store").code, 2); }

}  // namespace
}  // namespace dp::ctl
