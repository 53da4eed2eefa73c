#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/testing/scratch_dir.h"
#include "server/logs/log_file.h"
#include "server/logs/log_roster.h"
#include "server/logs/log_thread.h"
#include "tests/torture/fault_files.h"

// The log thread on files with a crash or an error at every operation. Everything acknowledged is
// there: lines, gaps, times, and the ranks' roster.

namespace dp::torture {
namespace {

using How = FaultFiles::How;
using server::LogChunk;
using server::LogFile;
using server::LogStreamKey;
using server::LogThread;

constexpr JobId kJob(3);
constexpr int kBatches = 24;

// The bytes that a rank has written, and how many were acknowledged.
struct Stream {
  std::string bytes;  // zeros within a gap
  std::vector<std::pair<uint64_t, uint64_t>> gaps;
  uint64_t acknowledged = 0;
};

class LogTorture {
 public:
  explicit LogTorture(uint64_t seed) : random_(seed), files_(Root(scratch_.path())) {}

  FaultFiles& files() { return files_; }
  const std::string& broken() const { return broken_; }

  // A run of the log thread. It ends after its batches or at the first error.
  void Live() {
    bool told_failure = false;
    LogThread thread(server::LogStore(scratch_.path() / "logs"),
                     [&](const absl::Status&) { told_failure = true; });
    absl::Status status;
    for (int batch = 0; batch < kBatches && status.ok(); ++batch) status = Append(thread);
    // A thread whose files failed must not continue as if it had them.
    if (told_failure && Append(thread).ok()) Break("an append was taken after a sync had failed");
    thread.Stop();
    if (!status.ok() && !files_.failed())
      Break(absl::StrCat("without a fault: ", status.ToString()));
    if (status.ok() && files_.erred()) Break("a fault went unnoticed");
  }

  void CheckAcknowledged() {
    for (const auto& [key, stream] : streams_) Check(key, stream);
    for (const int rank : whole_) {
      const auto roster = server::LogRoster::Open(Folder() / "ranks");
      const server::RankOutput* known = roster.ok() ? roster->Find(rank) : nullptr;
      if (known == nullptr || !known->whole) {
        Break(absl::StrCat("that rank ", rank, " is whole was acknowledged"));
      }
    }
  }

 private:
  // The folder as the coordinator's start leaves it.
  static std::filesystem::path Root(const std::filesystem::path& path) {
    std::filesystem::create_directory(path / "logs");
    return path;
  }
  std::filesystem::path Folder() const { return scratch_.path() / "logs" / "3" / "1"; }
  uint64_t Below(uint64_t bound) { return NextRandom(random_) % bound; }
  void Break(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  // Sends a stream's unacknowledged bytes and some new ones, as a daemon does.
  absl::Status Append(LogThread& thread) {
    const LogStreamKey key{Generation(1), static_cast<int>(Below(2)), LogStreamKey::Kind::kStdout};
    Stream& stream = streams_[key];
    server::LogBatch batch;
    if (stream.acknowledged == stream.bytes.size() && Below(4) == 0) {
      const uint64_t begin = stream.bytes.size(), size = 1 + Below(3000);
      stream.bytes.append(size, '\0');
      stream.gaps.emplace_back(begin, begin + size);
      batch.chunks.push_back({key, begin, "", {{begin, TimeOf(begin)}}, size});
    } else {
      if (InGap(stream)) return SendGapAgain(thread, key, stream);
      stream.bytes.append(Below(3000), 'a' + static_cast<char>(Below(26)));
      stream.bytes.push_back('\n');
      const uint64_t from = stream.acknowledged;
      batch.chunks.push_back({key, from, stream.bytes.substr(from), {{from, TimeOf(from)}}});
    }
    const bool whole = Below(6) == 0;
    if (whole) batch.ranks.push_back({Generation(1), key.rank, "w", "h", "/spool", true});
    return Send(thread, std::move(batch), whole ? std::optional(key.rank) : std::nullopt);
  }

  static bool InGap(const Stream& stream) {
    return !stream.gaps.empty() && stream.acknowledged < stream.gaps.back().second;
  }

  absl::Status SendGapAgain(LogThread& thread, const LogStreamKey& key, const Stream& stream) {
    const auto [begin, end] = stream.gaps.back();
    return Send(thread, {{{key, begin, "", {{begin, TimeOf(begin)}}, end - begin}}}, std::nullopt);
  }

  absl::Status Send(LogThread& thread, server::LogBatch batch, std::optional<int> whole) {
    std::promise<absl::StatusOr<LogThread::Appended>> answer;
    const absl::Status queued = thread.Append(
        kJob, std::move(batch), [&](auto appended) { answer.set_value(std::move(appended)); });
    if (!queued.ok()) return queued;
    const absl::StatusOr<LogThread::Appended> appended = answer.get_future().get();
    if (!appended.ok()) return appended.status();
    for (const server::LogPosition& end : appended->acknowledged) {
      streams_[end.stream].acknowledged = end.offset;
    }
    if (whole) whole_.insert(*whole);
    return absl::OkStatus();
  }

  static absl::Time TimeOf(uint64_t offset) {
    return absl::FromUnixSeconds(1'000'000 + static_cast<int64_t>(offset));
  }

  void Check(const LogStreamKey& key, const Stream& stream) {
    if (stream.acknowledged == 0) return;
    const std::string name = absl::StrCat("rank ", key.rank, ": ", stream.acknowledged, " bytes");
    auto file = LogFile::Open(Folder() / absl::StrCat(key.rank, ".stdout"));
    if (!file.ok()) return Break(absl::StrCat(name, ": ", file.status().ToString()));
    if (file->end() < stream.acknowledged) {
      return Break(absl::StrCat(name, " were acknowledged, there are ", file->end()));
    }
    if (*file->Read(0, stream.acknowledged) != stream.bytes.substr(0, stream.acknowledged)) {
      Break(absl::StrCat(name, ": others than these were acknowledged"));
    }
    for (const auto& [begin, end] : stream.gaps) {
      const server::LogGap* gap = file->GapAtOrBehind(begin);
      if (begin >= stream.acknowledged) continue;
      if (gap == nullptr || gap->begin > begin || gap->end < end) {
        Break(absl::StrCat(name, ": the gap at ", begin, " was acknowledged"));
      }
    }
    const auto times = file->Times(0, stream.acknowledged);
    if (!times.ok() || times->empty()) Break(absl::StrCat(name, ": its times were acknowledged"));
  }

  uint64_t random_;
  const ScratchDir scratch_;
  FaultFiles files_;
  std::map<LogStreamKey, Stream> streams_;
  std::set<int> whole_;
  std::string broken_;
};

// A run that ends at the fault, then a run without one. In between the machine may crash.
std::string Try(uint64_t seed, FaultFiles::Fault fault, bool crash) {
  LogTorture torture(seed);
  torture.files().Restart(fault);
  torture.Live();
  torture.files().Restart();
  if (crash) torture.files().Crash();
  torture.CheckAcknowledged();
  torture.Live();
  torture.files().Crash();
  torture.CheckAcknowledged();
  if (torture.broken().empty()) return "";
  return absl::StrCat(torture.broken(), " (seed ", seed, ", operation ", fault.operation,
                      ", fault ", static_cast<int>(fault.how), crash ? ", crash)" : ")");
}

// The number of file operations in a run without faults.
int64_t LogOperations(uint64_t seed) {
  LogTorture torture(seed);
  torture.Live();
  const int64_t operations = torture.files().operations();
  torture.files().Crash();
  torture.CheckAcknowledged();
  EXPECT_EQ(torture.broken(), "");
  return operations;
}

TEST(LogTortureTest, WhatWasAcknowledgedSurvivesEveryCrashAndError) {
  constexpr uint64_t kSeed = 1;
  const int64_t operations = LogOperations(kSeed);
  ASSERT_GE(operations, 100);
  constexpr How kHows[] = {How::kCrashBefore, How::kCrashAfter, How::kError, How::kFull};
  // Each operation fails in two of the eight ways, the next operation in others.
  for (int64_t operation = 0; operation < operations; ++operation) {
    for (const int64_t way : {operation % 8, (operation * 5 + 3) % 8}) {
      ASSERT_EQ(Try(kSeed, {operation, kHows[way / 2]}, way % 2 == 0), "");
    }
  }
}

}  // namespace
}  // namespace dp::torture
