#include "worker/engine/collectives/exchange/exchange_group.h"

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

// Where ranks that are threads leave pieces for each other.
class Mailbox {
 public:
  void Put(int from, int to, absl::Span<const uint8_t> piece) {
    MutexLock lock(mu_);
    pieces_[{from, to}].emplace_back(piece.begin(), piece.end());
    changed_.NotifyAll();
  }

  absl::Status Take(int from, int to, absl::Span<uint8_t> room) {
    MutexLock lock(mu_);
    auto& waiting = pieces_[{from, to}];
    while (waiting.empty()) {
      if (interrupted_[to]) return absl::AbortedError("interrupted");
      if (gone_[from]) return absl::UnavailableError(absl::StrCat("rank ", from, " went away"));
      changed_.Wait(mu_);
    }
    const std::vector<uint8_t> piece = std::move(waiting.front());
    waiting.pop_front();
    if (piece.size() != room.size()) return absl::InternalError("a piece of another size");
    std::memcpy(room.data(), piece.data(), piece.size());
    return absl::OkStatus();
  }

  void Mark(std::map<int, bool> Mailbox::*marks, int rank) {
    MutexLock lock(mu_);
    (this->*marks)[rank] = true;
    changed_.NotifyAll();
  }

  std::map<int, bool> interrupted_, gone_;  // guarded by mu_

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<uint8_t>>> pieces_ DP_GUARDED_BY(mu_);
};

class ByMailbox : public Exchanger {
 public:
  ByMailbox(std::shared_ptr<Mailbox> mailbox, int rank) : mailbox_(mailbox), rank_(rank) {}
  ~ByMailbox() override { mailbox_->Mark(&Mailbox::gone_, rank_); }

  absl::Status Exchange(const Sent& sent, const Received& received) override {
    for (size_t r = 0; r < sent.size(); ++r)
      if (!sent[r].empty()) mailbox_->Put(rank_, static_cast<int>(r), sent[r]);
    for (size_t r = 0; r < received.size(); ++r) {
      if (received[r].empty()) continue;
      if (auto status = mailbox_->Take(static_cast<int>(r), rank_, received[r]); !status.ok())
        return status;
    }
    return absl::OkStatus();
  }
  void Interrupt() override { mailbox_->Mark(&Mailbox::interrupted_, rank_); }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  const int rank_;
};

Groups OpenByMailbox(int size, const GroupOptions& options) {
  const auto mailbox = std::make_shared<Mailbox>();
  Groups groups(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto group = ConnectExchange(std::make_unique<ByMailbox>(mailbox, r), r, size, options,
                                   std::nullopt, absl::Minutes(1));
      ASSERT_TRUE(group.ok()) << group.status();
      groups[r] = *std::move(group);
    });
  threads.clear();
  return groups;
}

INSTANTIATE_TEST_SUITE_P(ByExchanges, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenByMailbox,
                                                                      .names_ranks = false,
                                                                      .has_limits_of_calls = false,
                                                                      .states_differences = false}),
                                            ::testing::Range(1, 5)));

TEST(ExchangeGroupTest, JoiningHasATimeLimitOfItsOwn) {
  const auto mailbox = std::make_shared<Mailbox>();
  const auto group =
      ConnectExchange(std::make_unique<ByMailbox>(mailbox, 0), 0, 2, {.timeout = absl::Minutes(1)},
                      std::nullopt, absl::Milliseconds(1));
  EXPECT_EQ(group.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(group.status().message()), ::testing::HasSubstr("within 1ms"));
}

}  // namespace
}  // namespace dp::engine
