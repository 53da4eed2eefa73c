// The journal's own checks of its files before SQLite opens them: the write-ahead log (WAL) and the
// mark. A WAL of any bytes is an error or is left to SQLite. A WAL that a crash has cut off is
// never called damaged, and one in which a synced transaction has changed always is. A mark counts
// only as it was written.
//
// The first byte chooses: any bytes as a WAL; a WAL that is made from the bytes, cut or changed;
// any bytes as a mark.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "server/journal/sqlite_mark.h"
#include "server/journal/sqlite_wal.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::wal {
namespace {

constexpr size_t kPageBytes = 512;
constexpr size_t kFramesMax = 16;
constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameBytes = 24 + kPageBytes;

// SQLite opens a WAL only beside a database.
std::string MakeDatabase() {
  static const ScratchDir& dir = *new ScratchDir();
  const std::string file = dir.path() / "journal";
  std::ofstream(file).flush();
  return file;
}

const std::string& File() {
  static const std::string& file = *new std::string(MakeDatabase());
  return file;
}

void WriteBeside(const char* ending, absl::string_view bytes) {
  std::ofstream(File() + ending, std::ios::binary | std::ios::trunc) << bytes;
}

absl::StatusOr<bool> Check(absl::string_view bytes) {
  WriteBeside("-wal", bytes);
  return server::CheckWal(File(), nullptr);
}

void Append(uint32_t word, std::string* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes->push_back(static_cast<char>(word >> shift));
}

// Writes a WAL as https://www.sqlite.org/fileformat2.html#walformat has it, with checksums of
// big-endian words.
class WalWriter {
 public:
  WalWriter() {
    for (const uint32_t word : {0x377f0683u, 3007000u, uint32_t{kPageBytes}, 0u, 11u, 22u}) {
      Append(word, &bytes_);
    }
    Sum(bytes_);
    AppendSums();
  }
  void AddFrame(uint32_t page, bool ends_transaction) {
    std::string head, body(kPageBytes, static_cast<char>(page));
    Append(page, &head);
    Append(ends_transaction ? page : 0, &head);
    Sum(head);
    Sum(body);
    bytes_ += head;
    for (const uint32_t salt : {11u, 22u}) Append(salt, &bytes_);
    AppendSums();
    bytes_ += body;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Sum(absl::string_view bytes) {
    const auto word = [&bytes](size_t at) {
      uint32_t value = 0;
      for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
      return value;
    };
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first_ += word(at) + second_;
      second_ += word(at + 4) + first_;
    }
  }
  void AppendSums() {
    Append(first_, &bytes_);
    Append(second_, &bytes_);
  }

  std::string bytes_;
  uint32_t first_ = 0;
  uint32_t second_ = 0;
};

// Two bytes for a place, then one for each frame: odd ends a transaction.
void CheckMade(absl::string_view input) {
  const size_t place = size_t{TakeChoice(&input)} << 8 | TakeChoice(&input);
  WalWriter writer;
  size_t transactions = 0, first_end = 0, frames = 0;
  for (const char frame : input.substr(0, kFramesMax)) {
    const bool ends = (frame & 1) != 0;
    writer.AddFrame(static_cast<uint8_t>(frame) + 1, ends);
    ++frames;
    if (ends && ++transactions == 1) first_end = frames;
  }
  std::string bytes = writer.bytes();
  DP_CHECK(Check(bytes).ok());
  DP_CHECK(Check(bytes.substr(0, place % (bytes.size() + 1))).ok());
  if (transactions < 2) return;
  // A byte of the first transaction, with the second one behind it.
  const size_t at = kHeaderBytes + place % (first_end * kFrameBytes);
  bytes[at] ^= 0x40;
  const absl::Status damaged = Check(bytes).status();
  // A frame with another salt is one from before the WAL began anew, so its transaction may seem to
  // end with the next. A third one then shows the damage.
  const size_t in_frame = (at - kHeaderBytes) % kFrameBytes;
  const bool head = in_frame < 16;
  DP_CHECK(absl::IsDataLoss(damaged) || (head && transactions < 3));
}

void CheckMark(absl::string_view bytes) {
  WriteBeside("-mark", bytes);
  const auto mark = server::SqliteMark::Open(File(), nullptr, server::SqliteMark::Sync::kAtOnce);
  DP_CHECK(mark.ok());
  DP_CHECK(!(*mark)->damaged() || !(*mark)->sequence().has_value());
  if ((*mark)->sequence().has_value()) {
    DP_CHECK(absl::StrContains(bytes, absl::StrCat(*(*mark)->sequence())));
  }
}

}  // namespace

void Run(absl::string_view input) {
  switch (TakeChoice(&input) % 3) {
    case 0: {
      const absl::Status status = Check(input).status();
      DP_CHECK(status.ok() || absl::IsDataLoss(status));
      break;
    }
    case 1:
      CheckMade(input);
      break;
    default:
      CheckMark(input);
  }
}

std::vector<std::string> Seeds() {
  WalWriter writer;
  for (const bool ends : {false, true, true, false}) writer.AddFrame(3, ends);
  return {Chosen(0, writer.bytes()), Chosen(0, std::string(64, '\0')),
          Chosen(1, std::string("\2\1\0\1\1\0\1\0", 8)), Chosen(1, std::string("\0\50\1\1\1", 5)),
          Chosen(2, "dp journal mark\nacknowledged 00000000000000000042\nchecksum 0000000000\n")};
}

}  // namespace dp::fuzz::wal
