#include "worker/agent/processes/exit_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/file_descriptor.h"
#include "base/replace_file.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

// STATE_DIR/spool/JOB/GENERATION: the rank's daemon makes all directories below STATE_DIR.
constexpr int kDirectoriesMade = 4;

constexpr char kCode[] = "code";
constexpr char kSignal[] = "signal";

bool Sync(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.valid() && fsync(file.get()) == 0;
}

std::string TextOf(const ExitRecord& record) {
  return std::string(record.exit.how == Exit::How::kCode ? kCode : kSignal) + " " +
         std::to_string(record.exit.number) + " " + (record.stopped ? "1" : "0") + " " +
         (record.oom ? "1" : "0") + " " + std::to_string(record.at_unix_nanos) + "\n";
}

}  // namespace

void WriteExitRecord(const std::string& path, const ExitRecord& record) {
  // Without its owner the record is useless.
  (void)Sync(fs::path(path).replace_extension(kOwnerSuffix));
  if (!ReplaceFile(path, TextOf(record))) return;
  fs::path directory = fs::path(path).parent_path();
  for (int made = 0; made < kDirectoriesMade && Sync(directory); ++made) {
    directory = directory.parent_path();
  }
}

std::optional<ExitRecord> ReadExitRecord(const std::string& path) {
  std::ifstream file(path);
  std::string how;
  ExitRecord record;
  if (!(file >> how >> record.exit.number >> record.stopped >> record.oom >>
        record.at_unix_nanos) ||
      (how != kCode && how != kSignal)) {
    return std::nullopt;
  }
  record.exit.how = how == kCode ? Exit::How::kCode : Exit::How::kSignal;
  // A number may have been cut, and more may follow.
  file.clear();
  file.seekg(0);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text == TextOf(record) ? std::optional(record) : std::nullopt;
}

void RemoveExitRecord(const std::string& path) { RemoveReplacedFile(path); }

}  // namespace dp::worker
