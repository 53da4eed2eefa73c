#include "base/data/inflate.h"

#include <zlib.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::data {
namespace {

// A stream that grows beyond this is no small set of samples; keep such sets uncompressed.
constexpr size_t kDecompressedBytesMax = size_t{1} << 34;
constexpr size_t kChunkBytes = 1 << 24;

class InflateStream {
 public:
  InflateStream(absl::Span<const uint8_t> bytes, Compression compression)
      : left_(bytes), members_(compression == Compression::kGzip) {
    const int window = compression == Compression::kGzip ? 15 + 16 : -15;
    ready_ = inflateInit2(&stream_, window) == Z_OK;
  }
  ~InflateStream() { inflateEnd(&stream_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  // Fills `to` and returns how many bytes came; fewer only at the end of the stream.
  absl::StatusOr<size_t> Read(absl::Span<uint8_t> to) {
    if (!ready_) return absl::ResourceExhaustedError("no memory to decompress");
    size_t done = 0;
    while (done < to.size() && !ended_) {
      Refill();
      stream_.next_out = to.data() + done;
      stream_.avail_out = static_cast<uInt>(std::min(to.size() - done, kChunkBytes));
      const uInt room = stream_.avail_out;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (code == Z_STREAM_END) {
        ended_ = !BeginNext();
      } else if (code == Z_BUF_ERROR || (code == Z_OK && at_end() && room == stream_.avail_out)) {
        return absl::InvalidArgumentError("truncated: the compressed stream breaks off");
      } else if (code != Z_OK) {
        return absl::InvalidArgumentError(absl::StrCat(
            "cannot be decompressed: ", stream_.msg == nullptr ? "bad data" : stream_.msg));
      }
    }
    return done;
  }

 private:
  bool at_end() const { return left_.empty() && stream_.avail_in == 0; }

  void Refill() {
    if (stream_.avail_in > 0 || left_.empty()) return;
    const size_t size = std::min(left_.size(), kChunkBytes);
    stream_.next_in = const_cast<Bytef*>(left_.data());
    stream_.avail_in = static_cast<uInt>(size);
    left_.remove_prefix(size);
  }

  // A gzip file may have several members one after another.
  bool BeginNext() {
    Refill();
    return members_ && !at_end() && *stream_.next_in == 0x1f && inflateReset(&stream_) == Z_OK;
  }

  z_stream stream_{};
  absl::Span<const uint8_t> left_;
  const bool members_;
  bool ready_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<std::vector<uint8_t>>> Inflate(absl::Span<const uint8_t> bytes,
                                                              Compression compression,
                                                              size_t at_least) {
  auto all = std::make_shared<std::vector<uint8_t>>();
  InflateStream stream(bytes, compression);
  const size_t want = std::min(kChunkBytes, at_least);
  for (size_t done = 0;;) {
    all->resize(done + want);
    DP_ASSIGN_OR_RETURN(const size_t got, stream.Read(absl::MakeSpan(*all).subspan(done)));
    done += got;
    all->resize(done);
    if (got < want || done >= at_least) break;
    if (done >= kDecompressedBytesMax) {
      return absl::InvalidArgumentError("more than 16 GiB when decompressed; decompress the file");
    }
  }
  all->shrink_to_fit();
  return all;
}

}  // namespace dp::data
