#include "server/core/worker_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace dp::core {
namespace {

using testing::HasSubstr;

class WorkerTableTest : public testing::Test {
 protected:
  absl::StatusOr<WorkerTable::Registered> Register(const std::string& name, const std::string& host,
                                                   uint64_t life) {
    return table_.Register({name, host, "", Incarnation(life), 2}, now_);
  }
  // Registers an incarnation without a name. Returns the name that it got.
  std::string NameOf(const std::string& host, uint64_t life) {
    return table_.Find(Register("", host, life)->id)->name;
  }

  absl::Time now_ = absl::UnixEpoch();
  WorkerTable table_;
};

TEST_F(WorkerTableTest, WithoutANameAWorkerIsCalledAfterItsHostAndNumbered) {
  EXPECT_EQ(NameOf("host", 1), "host");
  EXPECT_EQ(NameOf("host", 2), "host-2");
  EXPECT_EQ(NameOf("host", 3), "host-3");
  EXPECT_EQ(NameOf("other", 4), "other");
}

TEST_F(WorkerTableTest, TheNameOfALostWorkerIsFreeAgain) {
  const WorkerId first = Register("", "host", 1)->id;
  EXPECT_EQ(NameOf("host", 2), "host-2");
  table_.Lose(first, "gone", now_);
  EXPECT_EQ(NameOf("host", 3), "host");
}

TEST_F(WorkerTableTest, RegisteringALifeAgainChangesNothing) {
  const WorkerTable::Registered first = *Register("", "host", 1);
  const WorkerTable::Registered again = *Register("", "host", 1);
  EXPECT_EQ(again.id, first.id);
  EXPECT_TRUE(first.changed);
  EXPECT_FALSE(again.changed);
}

TEST_F(WorkerTableTest, TheNameOfALiveWorkerIsRefusedAndItsHolderNamed) {
  const WorkerId id = table_.Register({"w", "first", "10.0.0.1", Incarnation(1), 2}, now_)->id;
  const absl::Status refused = Register("w", "second", 2).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr("name w is taken"));
  EXPECT_THAT(refused.message(), HasSubstr("host first at 10.0.0.1"));
  EXPECT_EQ(table_.Check(id, Incarnation(1)), absl::OkStatus());
}

TEST_F(WorkerTableTest, ANewLifeHasTheNameOfALostOne) {
  const WorkerId id = Register("w", "host", 1)->id;
  table_.Lose(id, "gone", now_);
  EXPECT_EQ(Register("w", "host", 2)->id, id);
  EXPECT_EQ(table_.Check(id, Incarnation(1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table_.Check(id, Incarnation(2)), absl::OkStatus());
}

TEST_F(WorkerTableTest, ALeavingWorkersNameIsFreeOnceNoRankIsLeftThere) {
  const WorkerId id = Register("w", "host", 1)->id;
  const RankKey rank = {JobId(1), Generation(1), 0};
  table_.Occupy(id, 1, rank);
  table_.Leave(id);
  EXPECT_EQ(Register("w", "host", 2).status().code(), absl::StatusCode::kAlreadyExists);
  table_.Vacate(id, 1, rank);
  EXPECT_EQ(Register("w", "host", 2)->id, id);
}

TEST_F(WorkerTableTest, AnUnhealthySlotIsNotFreeUntilItsDaemonLeavesItOut) {
  const WorkerId id = Register("w", "host", 1)->id;
  const auto report = [id](uint64_t number, std::map<int, std::string> unhealthy) {
    return ReportSlots{id, Incarnation(1), number, std::move(unhealthy)};
  };
  const size_t all = table_.Find(id)->free_slots().size();
  EXPECT_TRUE(*table_.SetUnhealthy(report(1, {{0, "GPU 0 is lost"}})));
  EXPECT_EQ(table_.Find(id)->free_slots().size(), all - 1);
  EXPECT_TRUE(*table_.SetUnhealthy(report(3, {})));
  EXPECT_FALSE(*table_.SetUnhealthy(report(2, {{0, "overtaken"}})));
  EXPECT_EQ(table_.Find(id)->free_slots().size(), all);
  EXPECT_THAT(table_.SetUnhealthy(report(4, {{99, "x"}})).status().message(),
              HasSubstr("no slot 99"));
}

TEST_F(WorkerTableTest, TheNextLifeOfAWorkerBeginsWithHealthySlots) {
  const WorkerId id = Register("w", "host", 1)->id;
  ASSERT_TRUE(table_.SetUnhealthy({id, Incarnation(1), 7, {{0, "GPU 0 is lost"}}}).ok());
  table_.Lose(id, "gone", now_);
  Register("w", "host", 2).value();
  EXPECT_TRUE(table_.Find(id)->unhealthy.empty());
  EXPECT_TRUE(*table_.SetUnhealthy({id, Incarnation(2), 1, {{0, "GPU 0 is lost"}}}));
}

TEST_F(WorkerTableTest, ALostLifeNeverComesBack) {
  const WorkerId id = Register("w", "host", 1)->id;
  table_.Lose(id, "gone", now_);
  EXPECT_EQ(Register("w", "host", 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Register("w", "host", 2).ok());
  EXPECT_EQ(Register("w", "host", 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WorkerTableTest, BadRequestsNameTheValue) {
  EXPECT_THAT(Register("", "no host", 1).status().message(), HasSubstr("host 'no host'"));
  EXPECT_THAT(Register("a/b", "host", 1).status().message(), HasSubstr("name 'a/b'"));
  EXPECT_THAT(Register("", "host", 0).status().message(), HasSubstr("incarnation is 0"));
  EXPECT_THAT(table_.Register({"", "host", "", Incarnation(1), 0}, now_).status().message(),
              HasSubstr("slots is 0"));
}

TEST_F(WorkerTableTest, LostWorkersAreForgottenAfterAnHour) {
  const WorkerId first = Register("", "a", 1)->id;
  table_.Lose(first, "gone", now_);
  now_ += absl::Minutes(59);
  Register("", "b", 2).value();
  EXPECT_NE(table_.Find(first), nullptr);
  now_ += absl::Minutes(2);
  Register("", "c", 3).value();
  EXPECT_EQ(table_.Find(first), nullptr);
}

TEST_F(WorkerTableTest, OnlySoManyLostWorkersAreKept) {
  for (size_t i = 1; i <= WorkerTable::kLostMax + 5; ++i) {
    table_.Lose(Register("", absl::StrCat("host", i), i)->id, "gone", now_);
  }
  EXPECT_EQ(table_.workers().size(), WorkerTable::kLostMax);
}

TEST_F(WorkerTableTest, WorkersAreListedInNaturalOrder) {
  NameOf("node10", 1), NameOf("node2", 2);
  EXPECT_EQ(table_.workers().front()->name, "node2");
}

}  // namespace
}  // namespace dp::core
