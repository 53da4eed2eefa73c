#pragma once

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/coordinator.h"
#include "server/journal/convert_command.h"
#include "server/journal/sqlite_checksum.h"
#include "server/journal/sqlite_journal.h"

// For tests: a journal on disk whose files a test may change, and checks of its errors.

namespace dp::server {

inline core::Command Cancel(uint64_t job) {
  return {absl::UnixEpoch(), core::CancelJob{JobId(job)}};
}

class SqliteJournalTest : public ::testing::Test {
 protected:
  // The jobs that the journal's commands cancel, or why it cannot be read.
  absl::StatusOr<std::vector<uint64_t>> Replay() {
    auto journal = SqliteJournal::Open(file_);
    if (!journal.ok()) return journal.status();
    std::vector<uint64_t> jobs;
    restored_.reset();
    const absl::Status status =
        (*journal)->Replay([this](core::State state) { restored_.emplace(std::move(state)); },
                           [&](const core::Command& command) {
                             jobs.push_back(std::get<core::CancelJob>(command.action).job.value());
                           });
    if (!status.ok()) return status;
    return jobs;
  }
  void Append(std::vector<core::Command> commands) {
    const auto journal = OpenReplayed();
    const absl::Status status = journal->Append(commands);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<SqliteJournal> OpenReplayed() {
    auto journal = SqliteJournal::Open(file_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    const absl::Status replayed =
        (*journal)->Replay([](core::State) {}, [](const core::Command&) {});
    EXPECT_TRUE(replayed.ok()) << replayed;
    while ((*journal)->compacting()) EXPECT_TRUE((*journal)->Maintain().ok());
    return *std::move(journal);
  }
  // Takes a snapshot of a state with `jobs` jobs, and does `shares` shares of its work; by default
  // all.
  void TakeSnapshot(int jobs, int shares = 1000) {
    const auto journal = OpenReplayed();
    journal->TakeSnapshot(StateOf(jobs).state());
    EXPECT_EQ(journal->tail().commands, 0u);
    while (journal->compacting() && shares-- > 0) {
      const absl::Status status = journal->Maintain();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  static core::Coordinator StateOf(int jobs) {
    core::Coordinator coordinator;
    coordinator.Apply({absl::UnixEpoch(), core::StartEpoch{}});
    for (int i = 0; i < jobs; ++i) {
      const std::string name = "job " + std::to_string(i);
      // Each job fills a piece of the snapshot.
      const core::JobSpec spec{.name = name, .payload = std::string(300'000, 'x')};
      coordinator.Apply({absl::UnixEpoch(), core::SubmitJob{name, spec}});
    }
    return coordinator;
  }
  // Appends commands one by one, and leaves the files as kill -9 would.
  void AppendAndCrash(uint64_t commands) {
    const auto journal = OpenReplayed();
    for (uint64_t job = 1; job <= commands; ++job) ASSERT_TRUE(journal->Append({Cancel(job)}).ok());
    const std::string crashed = (scratch_.path() / "crashed.sqlite").string();
    for (const char* suffix : {"", "-wal", "-mark"}) {
      std::filesystem::copy_file(file_ + suffix, crashed + suffix);
    }
    file_ = crashed;
  }
  std::string wal() const { return file_ + "-wal"; }
  std::string mark() const { return file_ + "-mark"; }
  // Sets the mark, as if fewer commands had been acknowledged.
  void SetMark(uint64_t sequence) {
    const auto mark = SqliteMark::Open(file_, nullptr, SqliteMark::Sync::kAtOnce);
    ASSERT_TRUE(mark.ok()) << mark.status();
    ASSERT_TRUE((*mark)->Create(sequence).ok());
  }
  // The contents of the journal's files.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const std::string& file : {file_, wal(), mark()}) {
      std::ifstream in(file, std::ios::binary);
      std::string content{std::istreambuf_iterator<char>(in), {}};
      // SQLite makes an empty WAL if there is none.
      if (!content.empty()) files[file] = std::move(content);
    }
    return files;
  }
  // The log of a start that accepts the loss.
  std::string AcceptDataLoss() {
    ::testing::internal::CaptureStderr();
    const auto journal = SqliteJournal::Open(file_, {.accept_data_loss = true});
    EXPECT_TRUE(journal.ok()) << journal.status();
    const absl::Status replayed =
        (*journal)->Replay([](core::State) {}, [](const core::Command&) {});
    EXPECT_TRUE(replayed.ok()) << replayed;
    return ::testing::internal::GetCapturedStderr();
  }
  void ExpectRefusedAndUnchanged(const std::string& reason) {
    const auto files = Files();
    ExpectRefused(absl::StatusCode::kDataLoss, reason);
    ExpectRefused(absl::StatusCode::kDataLoss, "--accept-data-loss");
    EXPECT_TRUE(Files() == files) << "a refused start has changed the files";
  }
  // Flips a bit of the byte that is `from_end` bytes before the end.
  void FlipAByteOfTheWal(int64_t from_end) {
    std::fstream file(wal(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get());
    file.seekp(-from_end, std::ios::end);
    file.put(static_cast<char>(byte ^ 0x10));
  }
  int64_t Number(const std::string& sql) {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    int64_t number = -1;
    const auto take = [](void* number, int, char** columns, char**) {
      *static_cast<int64_t*>(number) = std::stoll(columns[0]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), take, &number, nullptr), SQLITE_OK);
    sqlite3_close(database);
    return number;
  }
  int64_t Count(const std::string& table) { return Number("SELECT count(*) FROM " + table); }
  // Changes the file while no journal has it open.
  void Tamper(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  // Makes record 2 one of a later release, which gives its command another meaning.
  void RaiseVersionOfRecord2() {
    journal::JournalRecord record = ToRecord(Cancel(2));
    record.set_version(2);
    const std::string bytes = record.SerializeAsString();
    Tamper(absl::StrCat("UPDATE journal SET record = x'", absl::BytesToHexString(bytes),
                        "', checksum = ", Checksum("2", bytes), " WHERE sequence = 2"));
  }
  void ExpectRefused(absl::StatusCode code, const std::string& reason) {
    const absl::Status status = Replay().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(reason));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(file_));
  }

  const ScratchDir scratch_;
  std::string file_ = (scratch_.path() / "journal.sqlite").string();
  std::optional<core::Coordinator> restored_;  // by the last Replay
};

}  // namespace dp::server
