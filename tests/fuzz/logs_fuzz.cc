// Files that a crash or a faulty disk has left in the coordinator's folder of logs. There are a
// stream, its times, gaps and cut, and the roster of ranks. Reading on from each page must reach
// the end, whatever the files say. Bytes that are appended afterwards are read back.
//
// The input is the five files in this order, each behind its length in two bytes.

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "server/logs/log_file.h"
#include "server/logs/log_page.h"
#include "server/logs/log_roster.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::logs {
namespace {

using namespace dp::server;

constexpr const char* kFiles[] = {"0.stdout", "0.stdout.times", "0.stdout.gaps", "0.stdout.cut",
                                  "ranks"};
constexpr uint64_t kFilesBytesMax = 1 << 20;  // more than all files of an input
// No input makes more pages than it has bytes, but for those of gaps, one each.
constexpr int kPagesMax = 10'000;

const std::filesystem::path& Folder() {
  static const ScratchDir& dir = *new ScratchDir();
  return dir.path();
}

void WriteFiles(absl::string_view input) {
  for (const char* name : kFiles) {
    const absl::string_view bytes = TakeSized(&input);
    const std::filesystem::path path = Folder() / name;
    std::filesystem::remove(path);
    if (!bytes.empty()) std::ofstream(path, std::ios::binary) << bytes;
  }
}

// Reads page after page. Returns the last page's positions.
std::vector<LogPosition> ReadAll(const std::map<LogStreamKey, LogFile>& streams, LogQuery query) {
  for (int pages = 0; pages < kPagesMax; ++pages) {
    const auto page = ReadPage(streams, query);
    DP_CHECK(page.ok());
    DP_CHECK(page->next.size() == streams.size());
    DP_CHECK(query.from.empty() || query.from[0].offset <= page->next[0].offset);
    if (page->exhausted) return page->next;
    DP_CHECK(query.from != page->next);  // else the reader asks for ever
    query.from = page->next;
  }
  DP_CHECK(false);
}

void CheckAppend(LogFile& file) {
  if (file.cut()) return;
  const uint64_t before = file.end();
  const bool appended = file.Append("more\n").ok();
  DP_CHECK(appended && file.end() == before + 5);
  const auto read = file.Read(before, 5);
  DP_CHECK(read.ok() && *read == "more\n");
  const bool skipped = file.AppendGap(7, LogGap::Reason::kEmptied).ok();
  DP_CHECK(skipped && file.end() == before + 12);
  const auto again = LogFile::Open(Folder() / kFiles[0]);
  DP_CHECK(again.ok() && again->end() == file.end());
  DP_CHECK(file.disk_bytes() < kFilesBytesMax && again->disk_bytes() < kFilesBytesMax);
}

void CheckRoster() {
  const auto roster = LogRoster::Open(Folder() / kFiles[4]);
  DP_CHECK(roster.ok());
  for (const auto& [number, rank] : roster->ranks()) DP_CHECK(number == rank.rank);
}

std::string Entry(uint64_t offset, uint64_t value) {
  std::string bytes;
  for (const uint64_t number : {offset, value}) {
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  }
  return bytes;
}

}  // namespace

void Run(absl::string_view input) {
  WriteFiles(input);
  CheckRoster();
  auto file = LogFile::Open(Folder() / kFiles[0]);
  DP_CHECK(file.ok());
  DP_CHECK(file->stored_end() <= file->end() && file->readable_end() <= file->end());
  const LogStreamKey stream{Generation(1)};
  std::map<LogStreamKey, LogFile> streams;
  streams.emplace(stream, *file);
  for (const bool finished : {false, true}) {
    for (const int tail_lines : {0, 2}) {
      LogQuery query{.tail_lines = tail_lines, .finished = finished, .with_times = true};
      if (tail_lines > 0) query.since = absl::FromUnixSeconds(1'764'228'000);
      const std::vector<LogPosition> end = ReadAll(streams, query);
      if (finished) DP_CHECK(end[0].offset >= file->stored_end());
    }
  }
  CheckAppend(*file);
}

std::vector<std::string> Seeds() {
  const std::string lines = "one\ntwo\nthree\n";
  const std::string roster = "0\tnode1\t10.0.0.1\t/var/spool/0\t1\n1\tnode2\tb\\011c\t\t0\n";
  const std::string hole = absl::StrCat("one\n", std::string(16, '\0'), "two\n");
  return {absl::StrCat(
              Sized(lines),
              Sized(absl::StrCat(Entry(0, 1'764'228'000'000'000), Entry(8, 1'764'228'001'000'000))),
              Sized(""), Sized(""), Sized(roster)),
          absl::StrCat(Sized(hole), Sized(Entry(0, 5)), Sized(Entry(4, 20 << 1)), Sized(""),
                       Sized(roster)),
          // Bytes that were removed, then bytes of which the rank emptied its file.
          absl::StrCat(
              Sized(hole), Sized(""),
              Sized(absl::StrCat(Entry(0, 4 << 1 | 1), Entry(4, 4 << 1 | 1), Entry(4, 20 << 1))),
              Sized(""), Sized(roster)),
          absl::StrCat(Sized(lines), Sized(""), Sized(""), Sized("8"), Sized(roster))};
}

}  // namespace dp::fuzz::logs
