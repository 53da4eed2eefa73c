// The part of the suite about messages between two ranks.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

absl::Span<int32_t> One(int32_t& value) { return {&value, 1}; }

}  // namespace

TEST_P(MessageConformance, AMessageOfAnySizeArrivesAtItsReceiver) {
  Groups groups = Open();
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5000}, size_t{4} << 20})
    OnEveryRank(groups, [&](Group& group) {
      std::vector<int32_t> data(count, 7);
      if (group.rank() == 0) {
        ASSERT_EQ(group.Send(absl::MakeConstSpan(data), last())->Wait(), absl::OkStatus());
      } else if (group.rank() == last()) {
        std::fill(data.begin(), data.end(), 0);
        ASSERT_EQ(group.Receive(absl::MakeSpan(data), 0)->Wait(), absl::OkStatus());
        ASSERT_EQ(data, std::vector<int32_t>(count, 7));
      }
    });
}

TEST_P(MessageConformance, AllRanksSendToEachOtherAtTheSameTime) {
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    const size_t count = 1 << 20;
    std::vector<std::vector<int32_t>> sent, received;
    for (int r = 0; r < size(); ++r) {
      sent.emplace_back(count, group.rank() * 10 + r);
      received.emplace_back(count);
    }
    std::vector<std::unique_ptr<Work>> works;
    for (int r = 0; r < size(); ++r)
      if (r != group.rank()) works.push_back(group.Send(absl::MakeConstSpan(sent[r]), r));
    for (int r = 0; r < size(); ++r)
      if (r != group.rank()) works.push_back(group.Receive(absl::MakeSpan(received[r]), r));
    for (auto& work : works) ASSERT_EQ(work->Wait(), absl::OkStatus());
    for (int r = 0; r < size(); ++r) {
      if (r == group.rank()) continue;
      ASSERT_EQ(received[r], std::vector<int32_t>(count, r * 10 + group.rank()));
    }
  });
}

TEST_P(MessageConformance, MessagesOfATagKeepTheirOrderAndTagsDoNotWaitForEachOther) {
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    int32_t values[3] = {1, 2, 3};
    std::vector<std::unique_ptr<Work>> works;
    if (group.rank() == 0) {
      works.push_back(group.Send(One(values[0]), last(), 5));
      works.push_back(group.Send(One(values[1]), last(), 5));
      works.push_back(group.Send(One(values[2]), last(), 6));
      for (auto& work : works) ASSERT_EQ(work->Wait(), absl::OkStatus());
    } else if (group.rank() == last()) {
      int32_t got[3] = {};
      ASSERT_EQ(group.Receive(One(got[2]), 0, 6)->Wait(), absl::OkStatus());
      ASSERT_EQ(group.Receive(One(got[0]), 0, 5)->Wait(), absl::OkStatus());
      ASSERT_EQ(group.Receive(One(got[1]), 0, 5)->Wait(), absl::OkStatus());
      EXPECT_THAT(got, ::testing::ElementsAre(1, 2, 3));
    }
  });
}

TEST_P(MessageConformance, MessagesRunBesideTheCollectives) {
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    int32_t value = group.rank() + 1;
    std::vector<int32_t> sum(100, 1);
    // Rank 0 is in the sum before it sends, the last rank receives before it is in the sum.
    if (group.rank() == last()) {
      ASSERT_EQ(group.Receive(One(value), 0)->Wait(), absl::OkStatus());
    }
    const auto reduce = group.AllReduce(absl::MakeSpan(sum), ReduceOp::kSum);
    if (group.rank() == 0) {
      ASSERT_EQ(group.Send(One(value), last())->Wait(), absl::OkStatus());
    }
    ASSERT_EQ(reduce->Wait(), absl::OkStatus());
    EXPECT_EQ(sum[99], size());
    if (group.rank() == last()) {
      EXPECT_EQ(value, 1);
    }
  });
}

TEST_P(MessageConformance, SizesOrTypesThatDifferFailOnBothRanksWithTheDifference) {
  for (const bool other_type : {false, true}) {
    Groups groups = Open();
    OnEveryRank(groups, [&](Group& group) {
      std::vector<uint8_t> data(48);
      const Elements sent(DataType::kInt32, absl::MakeSpan(data).first(40));
      const Elements expected(other_type ? DataType::kFloat32 : DataType::kInt32,
                              absl::MakeSpan(data).first(other_type ? 40 : 48));
      const std::string difference =
          absl::StrCat(": rank 0 sends 10 int32, rank ", last(), " expects ",
                       other_type ? "10 float32" : "12 int32");
      if (group.rank() == 0) {
        const absl::Status status = group.Send(sent, last(), 3)->Wait();
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(status.message(), absl::StrCat("send to rank ", last(), ", tag 3", difference));
        EXPECT_EQ(group.Barrier()->Wait(), status);
      } else if (group.rank() == last()) {
        const absl::Status status = group.Receive(expected, 0, 3)->Wait();
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(status.message(), absl::StrCat("recv from rank 0, tag 3", difference));
        EXPECT_EQ(group.Receive(expected, 0, 3)->Wait(), status);
      }
    });
  }
}

TEST_P(MessageConformance, APeerThatDoesNotArriveIsNamed) {
  Groups groups = Open(absl::Milliseconds(100));
  int32_t value = 0;
  const auto receive = groups[0]->Receive(One(value), last(), 4);
  const auto send = groups[last()]->Send(One(value), 0, 5);
  EXPECT_EQ(receive->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(receive->Wait().message(), absl::StrCat("recv from rank ", last(), ", tag 4: rank ",
                                                    last(), " did not arrive within 100ms"));
  EXPECT_EQ(send->Wait().message(), "send to rank 0, tag 5: rank 0 did not arrive within 100ms");
}

TEST_P(MessageConformance, APeerThatIsGoneIsNamed) {
  Groups groups = Open();
  int32_t value = 0;
  const auto receive = groups[0]->Receive(One(value), last());
  groups[last()].reset();
  const absl::Status status = receive->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            absl::StrCat("recv from rank ", last(), ", tag 0: rank ", last(), " went away"));
  EXPECT_EQ(groups[0]->Send(One(value), last())->Wait(), status);
}

TEST_P(MessageConformance, WhatWasSentBeforeAPeerLeftStillArrives) {
  Groups groups = Open();
  std::vector<int32_t> data(2 << 20, 3), got(2 << 20);
  std::jthread sender([&] {
    ASSERT_EQ(groups[0]->Send(absl::MakeConstSpan(data), last())->Wait(), absl::OkStatus());
    groups[0].reset();
  });
  EXPECT_EQ(groups[last()]->Receive(absl::MakeSpan(got), 0)->Wait(), absl::OkStatus());
  EXPECT_EQ(got, data);
}

TEST_P(MessageConformance, AbortEndsMessages) {
  Groups groups = Open();
  int32_t value = 0;
  const auto receive = groups[0]->Receive(One(value), last());
  std::jthread aborter([&] { groups[0]->Abort(absl::UnavailableError("generation 3 is over")); });
  EXPECT_EQ(receive->Wait().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(receive->Wait().message()), HasSubstr("generation 3 is over"));
}

TEST_P(MessageConformance, AMessageOutlivesItsGroup) {
  Groups groups = Open();
  int32_t value = 0;
  const auto receive = groups[0]->Receive(One(value), last());
  groups.clear();
  EXPECT_EQ(receive->Wait().code(), absl::StatusCode::kAborted);
}

}  // namespace dp::engine
