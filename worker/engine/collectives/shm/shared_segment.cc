#include "worker/engine/collectives/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

// Linux 6.3 and newer.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace dp::engine {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kPage = 4096;

size_t HeadBytes(int size) {
  const size_t records = sizeof(RankRecord) * static_cast<size_t>(size);
  return (records + kPage - 1) / kPage * kPage;
}

// From the beginning of the file to the heaps.
size_t HeapsBegin(int size) {
  return HeadBytes(size) + static_cast<size_t>(size) * kSlotsPerRank * kSlotBytes;
}

size_t SegmentBytes(int size) { return HeapsBegin(size) + static_cast<size_t>(size) * kHeapBytes; }

absl::Status MemoryError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Hosts may refuse memory that could be executed; kernels before 6.3 do not know the difference.
int CreateMemoryFile() {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int file = memfd_create("dp-shm", flags | MFD_NOEXEC_SEAL);
  return file >= 0 || errno != EINVAL ? file : memfd_create("dp-shm", flags);
}

}  // namespace

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (memory_ != nullptr) munmap(memory_, SegmentBytes(size_));
}

absl::StatusOr<FileDescriptor> SharedSegment::MakeFile(int size) {
  FileDescriptor file(CreateMemoryFile());
  if (!file.valid()) return MemoryError("memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(SegmentBytes(size))) != 0)
    return MemoryError("ftruncate");
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return MemoryError("F_ADD_SEALS");
  return file;
}

absl::StatusOr<SharedSegment> SharedSegment::Map(const FileDescriptor& file, int size) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(file.get(), &status) != 0 ||
      static_cast<size_t>(status.st_size) != SegmentBytes(size))
    return absl::InternalError(absl::StrCat("the file is no sealed segment for ", size, " ranks"));
  void* const memory =
      mmap(nullptr, SegmentBytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    const int code = errno;
    return absl::UnavailableError(absl::StrCat(
        "mmap of the memory that ", size, " ranks share: ", std::strerror(code), "; it takes ",
        SegmentBytes(size) >> 20, " MiB of address space (16 GiB and 4 MiB a rank), so raise ",
        "ulimit -v, or use backend gloo"));
  }
  SharedSegment segment;
  segment.memory_ = static_cast<uint8_t*>(memory);
  segment.size_ = size;
  return segment;
}

// A new file holds zeros, which are valid records of ranks that have not begun.
RankRecord& SharedSegment::record(int rank) const {
  DP_CHECK(rank >= 0 && rank < size_);
  return reinterpret_cast<RankRecord*>(memory_)[rank];
}

uint8_t* SharedSegment::slot(int rank, uint64_t chunk) const {
  DP_CHECK(rank >= 0 && rank < size_);
  const size_t index = static_cast<size_t>(rank) * kSlotsPerRank + chunk % kSlotsPerRank;
  return memory_ + HeadBytes(size_) + index * kSlotBytes;
}

uint8_t* SharedSegment::heap(int rank) const {
  DP_CHECK(rank >= 0 && rank < size_);
  return memory_ + HeapsBegin(size_) + static_cast<size_t>(rank) * kHeapBytes;
}

}  // namespace dp::engine
