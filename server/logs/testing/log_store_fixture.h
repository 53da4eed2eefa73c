#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/logs/log_store.h"

// Shared by the tests of the log store.

namespace dp::server {

inline constexpr JobId kJob(7);

using Kind = LogStreamKey::Kind;

inline LogStreamKey Stream(int rank, Kind kind = Kind::kStdout, uint64_t generation = 1) {
  return {Generation(generation), rank, kind};
}

inline absl::Time Second(int second) { return absl::FromUnixSeconds(second); }
inline std::vector<LogTime> At(uint64_t offset, int second) { return {{offset, Second(second)}}; }

// A store in a directory of its own, and one job in it.
class LogStoreFixture : public ::testing::Test {
 protected:
  // Appends to a stream and returns its acknowledged end.
  uint64_t Append(uint64_t offset, std::string data, LogStreamKey stream = Stream(0)) {
    return Append(offset, std::move(data), {}, stream);
  }
  uint64_t Append(uint64_t offset, std::string data, std::vector<LogTime> times,
                  LogStreamKey stream = Stream(0), JobId job = kJob) {
    return Append(job, {stream, offset, std::move(data), std::move(times)});
  }
  uint64_t AppendGap(uint64_t offset, uint64_t size) {
    return Append(kJob, {Stream(0), offset, "", {}, size});
  }
  uint64_t Append(JobId job, const LogChunk& chunk) {
    const auto end = store_->Append(job, chunk);
    EXPECT_TRUE(end.ok()) << end.status();
    EXPECT_TRUE(store_->Sync().ok());
    return end->offset;
  }
  LogPage Read(const LogQuery& query = {}) {
    auto page = store_->Read(kJob, query);
    EXPECT_TRUE(page.ok()) << page.status();
    return *std::move(page);
  }
  // All text that the query selects, page after page.
  std::string Text(LogQuery query = {}) {
    std::string text;
    for (int pages = 0; pages < 100; ++pages) {
      const LogPage page = Read(query);
      for (const LogChunk& chunk : page.chunks) text += chunk.data;
      query.from = page.next;
      if (page.exhausted) return text;
    }
    ADD_FAILURE() << "reading does not end";
    return text;
  }
  // Opens the store anew, as a restart does.
  void Reopen(const LogLimits& limits = {}) {
    store_ = std::make_unique<LogStore>(scratch_.path() / "logs", limits);
    store_->Measure();
  }

  const ScratchDir scratch_;
  std::unique_ptr<LogStore> store_ = std::make_unique<LogStore>(scratch_.path() / "logs");
};

}  // namespace dp::server
