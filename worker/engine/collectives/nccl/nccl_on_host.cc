#include "worker/engine/collectives/nccl/nccl_on_host.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/ended_work.h"

namespace dp::engine {
namespace {

class NcclOnHost final : public Group {
 public:
  NcclOnHost(NcclApi& api, Group& on_device, NcclApi::Stream stream, uint8_t* staging, size_t bytes)
      : api_(api),
        on_device_(on_device),
        stream_(stream),
        staging_(staging),
        staging_bytes_(bytes) {}
  ~NcclOnHost() override { api_.Free(staging_); }

  int rank() const override { return on_device_.rank(); }
  int size() const override { return on_device_.size(); }

  std::unique_ptr<Work> Start(Collective call) override {
    return std::make_unique<EndedWork>(Run(call));
  }

  std::unique_ptr<Work> Leave() override { return on_device_.Leave(); }
  void Abort(const absl::Status& why) override { on_device_.Abort(why); }

 private:
  absl::Status Run(const Collective& call) {
    switch (call.shape.kind) {
      case CallShape::Kind::kAllReduce:
        return ForEachPiece(call.output, staging_bytes_, [&](absl::Span<uint8_t> piece) {
          return InPlace(piece, [&](absl::Span<uint8_t> staged) {
            return on_device_.AllReduce({call.shape.type, staged}, ReductionOf(call.shape));
          });
        });
      case CallShape::Kind::kBroadcast:
        return ForEachPiece(call.output, staging_bytes_, [&](absl::Span<uint8_t> piece) {
          return InPlace(piece, [&](absl::Span<uint8_t> staged) {
            return on_device_.Broadcast(staged, call.shape.root);
          });
        });
      case CallShape::Kind::kAllGather:
        return GatherAll(call.input, call.output);
      default:
        return absl::UnimplementedError(absl::StrCat("over NCCL there is no ", TextOf(call.shape)));
    }
  }

  // In the buffer, this rank's piece precedes the gathered pieces of all.
  absl::Status GatherAll(absl::Span<const uint8_t> data, absl::Span<uint8_t> gathered) {
    const auto ranks = static_cast<size_t>(size());
    size_t begin = 0;
    const auto gather = [&](absl::Span<const uint8_t> piece) -> absl::Status {
      const absl::Span<uint8_t> mine(staging_, piece.size());
      const absl::Span<uint8_t> all(staging_ + piece.size(), piece.size() * ranks);
      DP_RETURN_IF_ERROR(Copy(piece, mine));
      DP_RETURN_IF_ERROR(on_device_.AllGather(mine, all)->Wait());
      const bool whole = piece.size() == data.size();  // then the pieces already lie in order
      const size_t length = whole ? all.size() : piece.size();
      for (size_t at = 0; at < all.size(); at += length) {
        const size_t to = at / piece.size() * data.size() + begin;
        DP_RETURN_IF_ERROR(Copy(all.subspan(at, length), gathered.subspan(to, length)));
      }
      begin += piece.size();
      return absl::OkStatus();
    };
    return ForEachPiece(data, staging_bytes_ / (ranks + 1), gather);
  }

  // Pieces of `piece_bytes`; the last may be shorter. Empty data is one piece, so that the peers
  // meet.
  template <typename Byte, typename Body>
  static absl::Status ForEachPiece(absl::Span<Byte> data, size_t piece_bytes, Body body) {
    do {
      const absl::Span<Byte> piece = data.first(std::min(data.size(), piece_bytes));
      DP_RETURN_IF_ERROR(body(piece));
      data.remove_prefix(piece.size());
    } while (!data.empty());
    return absl::OkStatus();
  }

  template <typename Operation>
  absl::Status InPlace(absl::Span<uint8_t> piece, Operation operation) {
    const absl::Span<uint8_t> staged(staging_, piece.size());
    DP_RETURN_IF_ERROR(Copy(piece, staged));
    DP_RETURN_IF_ERROR(operation(staged)->Wait());
    return Copy(staged, piece);
  }

  // A lost peer cannot hold up the stream for longer than the group's deadline.
  absl::Status Copy(absl::Span<const uint8_t> from, absl::Span<uint8_t> to) {
    if (from.empty()) return absl::OkStatus();
    return api_.Copy(from.data(), from.size(), to.data(), stream_);
  }

  NcclApi& api_;
  Group& on_device_;
  const NcclApi::Stream stream_;
  uint8_t* const staging_;
  const size_t staging_bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> MakeNcclOnHost(NcclApi& api, Group& on_device,
                                                      NcclApi::Stream stream,
                                                      int64_t staging_bytes) {
  DP_CHECK(staging_bytes % static_cast<int64_t>(sizeof(float)) == 0);
  DP_CHECK(staging_bytes >= static_cast<int64_t>(sizeof(float)) * (on_device.size() + 1));
  DP_ASSIGN_OR_RETURN(uint8_t* const staging, api.Allocate(staging_bytes));
  return std::make_unique<NcclOnHost>(api, on_device, stream, staging, staging_bytes);
}

}  // namespace dp::engine
