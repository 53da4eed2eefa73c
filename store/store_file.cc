#include "store/store_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp {
namespace {

constexpr char kMagic[8] = {'d', 'p', 's', 't', 'o', 'r', 'e', '1'};
// Leaving asks for each member whether it lives. A file that counts more is damaged.
constexpr uint64_t kMembersMax = 100'000;
// The locked bytes lie behind all records: first the lock of the records, then one per member.
constexpr off_t kRecordsLock = off_t{1} << 40;

off_t MemberLock(uint64_t member) { return kRecordsLock + 1 + static_cast<off_t>(member); }

struct flock ByteLock(short kind, off_t at) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  return lock;
}

int WaitForLock(int fd, short kind, off_t at) {
  struct flock lock = ByteLock(kind, at);
  int result = 0;
  do {
    result = fcntl(fd, F_OFD_SETLKW, &lock);
  } while (result != 0 && errno == EINTR);
  return result;
}

absl::Status CheckMembers(const std::string& path, int members) {
  if (members >= 1 && static_cast<uint64_t>(members) <= kMembersMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "store file ", path, " with ", members, " members; give their number, 1 to ", kMembersMax,
      members < 0 ? ", because the last one to leave removes the file" : ""));
}

// Whether the path still names the open file: the last member may have removed that meanwhile.
bool Named(const std::string& path, int fd) {
  struct stat named {
  }, open{};
  return stat(path.c_str(), &named) == 0 && fstat(fd, &open) == 0 && named.st_ino == open.st_ino &&
         named.st_dev == open.st_dev;
}

}  // namespace

// At the start of the file. Append writes `end` last, so a record that a dying process wrote in
// part does not count.
struct StoreFile::Header {
  char magic[8];
  uint64_t end = sizeof(Header);  // of the records
  uint64_t members = 0;           // of the run
  uint64_t joined = 0;            // so far
  uint64_t left = 0;              // in good order
};

StoreFile::Lock::~Lock() {
  if (file_ == nullptr) return;
  (void)WaitForLock(file_->file_.get(), F_UNLCK, kRecordsLock);  // else closing the file unlocks
}

absl::StatusOr<std::unique_ptr<StoreFile>> StoreFile::Join(const std::string& path, int members) {
  DP_RETURN_IF_ERROR(CheckMembers(path, members));
  while (true) {
    FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    std::unique_ptr<StoreFile> file(new StoreFile(path, std::move(fd)));
    if (!file->file_.valid() && errno == ENOENT)
      return absl::NotFoundError(
          absl::StrCat("store file ", path, ": no such directory; make it, or give another path"));
    if (!file->file_.valid() && errno == EISDIR)
      return absl::InvalidArgumentError(absl::StrCat("store file ", path,
                                                     " is a directory; give the path of a file in "
                                                     "it, which need not exist"));
    if (!file->file_.valid()) return file->Failed("cannot be opened");
    DP_ASSIGN_OR_RETURN(const Lock lock, file->ForWriting());
    if (!Named(path, file->file_.get())) continue;
    DP_RETURN_IF_ERROR(file->BecomeMember(members));
    return file;
  }
}

absl::Status StoreFile::BecomeMember(int members) {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) return Failed("cannot be read");
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.members = static_cast<uint64_t>(members);
  if (status.st_size > 0) {
    DP_ASSIGN_OR_RETURN(header, ReadHeader());
    DP_RETURN_IF_ERROR(CheckFresh(header, members));
  }
  member_ = header.joined++;
  struct flock lock = ByteLock(F_WRLCK, MemberLock(member_));
  if (fcntl(file_.get(), F_OFD_SETLK, &lock) != 0) return Failed("has no locks");
  DP_RETURN_IF_ERROR(
      Write(0, absl::string_view(reinterpret_cast<const char*>(&header), sizeof header)));
  joined_ = true;
  Rewind();
  return absl::OkStatus();
}

absl::Status StoreFile::CheckFresh(const Header& header, int members) const {
  const uint64_t living = LivingOthers(header);
  if (header.members != static_cast<uint64_t>(members)) {
    const std::string why =
        absl::StrCat("is of a run with ", header.members, " members, this one has ", members);
    return living > 0 ? InUse(why) : Stale(why);
  }
  if (header.joined >= header.members) {
    const std::string why = absl::StrCat("has had its ", header.members, " members already");
    return living > 0 ? InUse(why) : Stale(why);
  }
  if (living + header.left < header.joined)
    return Stale(
        absl::StrCat("was left by a member that died, ", living, " of ", header.joined, " live"));
  if (living == 0) return Stale("has been left by all who had joined");
  return absl::OkStatus();
}

StoreFile::~StoreFile() {
  if (!joined_ || getpid() != joined_in_) return;  // a fork is no member
  // A failure here leaves the file behind; the next run's error says to remove it.
  const auto lock = ForWriting();
  auto header = ReadHeader();
  if (!lock.ok() || !header.ok()) return;
  // Before the records' lock is released: the next to join must not count this member as living.
  struct flock gone = ByteLock(F_UNLCK, MemberLock(member_));
  (void)fcntl(file_.get(), F_OFD_SETLK, &gone);
  ++header->left;
  (void)Write(offsetof(Header, left),
              absl::string_view(reinterpret_cast<const char*>(&header->left), sizeof header->left));
  if (LivingOthers(*header) > 0 || header->joined < header->members) return;
  if (Named(path_, file_.get())) (void)unlink(path_.c_str());
}

absl::StatusOr<StoreFile::Lock> StoreFile::ForReading() const { return LockRecords(F_RDLCK); }
absl::StatusOr<StoreFile::Lock> StoreFile::ForWriting() const { return LockRecords(F_WRLCK); }

absl::StatusOr<StoreFile::Lock> StoreFile::LockRecords(short kind) const {
  if (WaitForLock(file_.get(), kind, kRecordsLock) != 0) return Failed("cannot be locked");
  return Lock(*this);
}

absl::StatusOr<std::vector<std::string>> StoreFile::ReadNew() {
  DP_ASSIGN_OR_RETURN(const Header header, ReadHeader());
  std::vector<std::string> records;
  while (read_ < header.end) {
    DP_ASSIGN_OR_RETURN(const std::string prefix, Read(read_, sizeof(uint64_t)));
    uint64_t size = 0;
    std::memcpy(&size, prefix.data(), sizeof size);
    const uint64_t left = header.end - read_;
    if (left < sizeof size || size > left - sizeof size)
      return absl::DataLossError(absl::StrCat("store file ", path_, " is damaged at ", read_));
    DP_ASSIGN_OR_RETURN(std::string record, Read(read_ + sizeof size, size));
    records.push_back(std::move(record));
    read_ += sizeof size + size;
  }
  return records;
}

absl::Status StoreFile::Append(absl::string_view record) {
  const uint64_t size = record.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(record.data(), record.size());
  DP_RETURN_IF_ERROR(Write(read_, bytes));
  const uint64_t end = read_ + bytes.size();
  DP_RETURN_IF_ERROR(Write(offsetof(Header, end),
                           absl::string_view(reinterpret_cast<const char*>(&end), sizeof end)));
  read_ = end;
  return absl::OkStatus();
}

void StoreFile::Rewind() { read_ = sizeof(Header); }

absl::StatusOr<StoreFile::Header> StoreFile::ReadHeader() const {
  Header header;
  const auto bytes = Read(0, sizeof header);
  const auto begins = [&](size_t size) {
    return bytes.ok() && std::memcmp(bytes->data(), kMagic, size) == 0;
  };
  if (begins(sizeof kMagic - 1) && !begins(sizeof kMagic)) {  // all but the number
    return absl::InvalidArgumentError(
        absl::StrCat("store file ", path_, " is of another release of dp, of format ",
                     bytes->substr(sizeof kMagic - 1, 1), " instead of ", kMagic[7] - '0',
                     "; give all members one release, or this run a path of its own"));
  }
  if (!begins(sizeof kMagic)) {
    return absl::InvalidArgumentError(
        absl::StrCat("store file ", path_, " is no store; give a path where there is no file"));
  }
  std::memcpy(&header, bytes->data(), sizeof header);
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) return Failed("cannot be read");
  if (header.end > static_cast<uint64_t>(status.st_size))
    return absl::DataLossError(absl::StrCat("store file ", path_, " is damaged: it has ",
                                            status.st_size, " bytes, not ", header.end));
  if (header.members > kMembersMax || header.joined > header.members)
    return absl::DataLossError(absl::StrCat("store file ", path_, " is damaged: it counts ",
                                            header.joined, " of ", header.members, " members"));
  return header;
}

absl::Status StoreFile::Write(uint64_t offset, absl::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("cannot be written");
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> StoreFile::Read(uint64_t offset, size_t size) const {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t read =
        pread(file_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return Failed("cannot be read");
    if (read == 0) return absl::DataLossError(absl::StrCat("store file ", path_, " is cut short"));
    done += static_cast<size_t>(read);
  }
  return bytes;
}

bool StoreFile::Lives(uint64_t member) const {
  struct flock lock = ByteLock(F_WRLCK, MemberLock(member));
  return fcntl(file_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

uint64_t StoreFile::LivingOthers(const Header& header) const {
  uint64_t living = 0;
  for (uint64_t member = 0; member < header.joined; ++member) {
    const bool self = joined_ && member == member_;
    if (!self && Lives(member)) ++living;
  }
  return living;
}

absl::Status StoreFile::Stale(const std::string& why) const {
  return absl::FailedPreconditionError(absl::StrCat("store file ", path_, " ", why,
                                                    ": it is of an earlier run; remove it, or give "
                                                    "each run a path of its own"));
}

absl::Status StoreFile::InUse(const std::string& why) const {
  return absl::FailedPreconditionError(
      absl::StrCat("store file ", path_, " ", why,
                   ", and some of them run; start each member once, with the same number of "
                   "members, or give this run a path of its own"));
}

absl::Status StoreFile::Failed(const char* what) const {
  return absl::UnavailableError(
      absl::StrCat("store file ", path_, " ", what, ": ", std::strerror(errno)));
}

}  // namespace dp
