#include "worker/engine/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// Larger than any set of small images; a header that asks for more is damaged.
constexpr int64_t kBytesMax = int64_t{1} << 34;

struct GzClose {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

// An open file. gzread passes plain files through unchanged.
class IdxFile {
 public:
  static absl::StatusOr<IdxFile> Open(const std::string& path) {
    errno = 0;
    std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));
    if (file == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    }
    return IdxFile(path, std::move(file));
  }

  // Reads `size` bytes, or fewer at the end of the file.
  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) {
    int64_t done = 0;
    while (done < size) {
      const auto chunk = static_cast<unsigned>(std::min<int64_t>(size - done, 1 << 30));
      const int got = gzread(file_.get(), to + done, chunk);
      if (got < 0) return Broken();
      if (got == 0) break;
      done += got;
    }
    return done;
  }

  // Whether the compressed stream is cut off: all data may be there although its checksum is not.
  bool breaks_off() const {
    int code = Z_OK;
    gzerror(file_.get(), &code);
    return code == Z_BUF_ERROR;
  }

  absl::Status Refuse(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
  }

 private:
  IdxFile(std::string path, std::unique_ptr<gzFile_s, GzClose> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Broken() const {
    int code = Z_OK;
    return Refuse(absl::StrCat("cannot be read: ", gzerror(file_.get(), &code)));
  }

  std::string path_;
  std::unique_ptr<gzFile_s, GzClose> file_;
};

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// The header holds 0, 0, the type (8: unsigned byte) and the number of axes; then each extent.
absl::StatusOr<std::vector<int64_t>> ReadExtents(IdxFile& file, int rank) {
  std::vector<uint8_t> header(4 + 4 * rank);
  DP_ASSIGN_OR_RETURN(const int64_t got, file.Read(header.data(), header.size()));
  const uint32_t magic_expected = 0x0800 + rank;
  if (got >= 4 && BigEndian(header.data()) != magic_expected) {
    return file.Refuse(
        absl::StrFormat("magic number is 0x%08x, but an IDX file of bytes with %d "
                        "axes has 0x%08x",
                        BigEndian(header.data()), rank, magic_expected));
  }
  if (got < static_cast<int64_t>(header.size())) {
    return file.Refuse(
        absl::StrCat("truncated: the header has ", header.size(), " bytes, found ", got));
  }
  std::vector<int64_t> extents;
  for (int axis = 0; axis < rank; ++axis) {
    extents.push_back(BigEndian(header.data() + 4 + 4 * axis));
  }
  return extents;
}

absl::StatusOr<int64_t> ByteCount(const IdxFile& file, const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (int64_t extent : extents) {
    if (extent == 0) return file.Refuse("holds no samples");
    if (extent > kBytesMax / count) return file.Refuse("the header asks for more than 16 GiB");
    count *= extent;
  }
  return count;
}

// Grows as bytes arrive, so that a wrong header does not decide how much memory is taken.
absl::StatusOr<std::vector<uint8_t>> ReadBytes(IdxFile& file, int64_t count) {
  constexpr int64_t kChunk = 1 << 24;
  std::vector<uint8_t> bytes;
  int64_t done = 0;
  while (done < count) {
    const int64_t want = std::min(kChunk, count - done);
    bytes.resize(done + want);
    DP_ASSIGN_OR_RETURN(const int64_t got, file.Read(bytes.data() + done, want));
    done += got;
    if (got < want) {
      return file.Refuse(
          absl::StrCat("truncated: the header asks for ", count, " bytes, found ", done));
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank) {
  DP_ASSIGN_OR_RETURN(IdxFile file, IdxFile::Open(path));
  IdxArray array;
  DP_ASSIGN_OR_RETURN(array.extents, ReadExtents(file, rank));
  DP_ASSIGN_OR_RETURN(const int64_t count, ByteCount(file, array.extents));
  DP_ASSIGN_OR_RETURN(array.bytes, ReadBytes(file, count));
  uint8_t more = 0;
  DP_ASSIGN_OR_RETURN(const int64_t extra, file.Read(&more, 1));
  if (extra != 0) {
    return file.Refuse(absl::StrCat("longer than the ", count, " bytes its header asks for"));
  }
  if (file.breaks_off()) return file.Refuse("truncated: the compressed stream breaks off");
  return array;
}

}  // namespace dp::engine
