#include "worker/engine/collectives/hierarchical/host_results.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace dp::engine {
namespace {

// Pieces begin on cache lines, whatever their type.
constexpr size_t kElementsPerLine = 64;

size_t RoundedUp(size_t elements) {
  return (elements + kElementsPerLine - 1) / kElementsPerLine * kElementsPerLine;
}

}  // namespace

std::vector<OwnedPart> PartsOfRanks(const std::vector<int>& ranks, size_t count) {
  std::vector<OwnedPart> parts;
  for (const int rank : ranks) {
    const int place = static_cast<int>(parts.size());
    parts.push_back({rank, SliceOf(count, place, static_cast<int>(ranks.size()))});
  }
  return parts;
}

OwnedPieces::OwnedPieces(std::vector<OwnedPart> parts, size_t width)
    : parts_(std::move(parts)), width_(width) {
  size_t longest = 0;
  for (const OwnedPart& part : parts_) longest = std::max(longest, part.elements.count);
  const size_t room = StagingArea::kAreaBytes / parts_.size() / width_;
  const size_t fit = room / kElementsPerLine * kElementsPerLine;
  DP_CHECK(fit > 0);
  chunks_ = std::max<size_t>((longest + fit - 1) / fit, 1);
  // Chunks of equal size overlap best.
  most_ = std::max(RoundedUp((longest + chunks_ - 1) / chunks_), kElementsPerLine);
}

Slice OwnedPieces::at(size_t part, size_t chunk) const {
  const Slice& elements = parts_[part].elements;
  const size_t begin = std::min(chunk * most_, elements.count);
  return {elements.begin + begin, std::min(most_, elements.count - begin)};
}

uint8_t* HostResults::place(size_t part, size_t chunk) const {
  const int handler = self_.plan->HandlerOf(pieces_.owner(part), self_.host());
  return self_.staging[handler].results(chunk) + pieces_.place(part);
}

std::unique_ptr<Work> HostResults::Pass(size_t chunk) const {
  const HostPlan& plan = *self_.plan;
  const size_t ranks = static_cast<size_t>(plan.ranks());
  std::vector<absl::Span<const uint8_t>> sent(ranks);
  std::vector<absl::Span<uint8_t>> received(ranks);
  for (size_t part = 0; part < pieces_.parts(); ++part) {
    const int owner = pieces_.owner(part);
    const size_t bytes = pieces_.at(part, chunk).count * pieces_.width();
    if (owner == self_.rank) {
      for (int host = 0; host < plan.hosts(); ++host)
        if (host != self_.host()) sent[plan.HandlerOf(owner, host)] = {place(part, chunk), bytes};
    } else if (plan.HandlerOf(owner, self_.host()) == self_.rank) {
      received[owner] = {place(part, chunk), bytes};
    }
  }
  return steps_.Between(std::move(sent), std::move(received));
}

void HostResults::Fetch(size_t chunk, uint8_t* array) const {
  for (size_t part = 0; part < pieces_.parts(); ++part) {
    const Slice piece = pieces_.at(part, chunk);
    if (piece.count > 0)
      std::memcpy(array + piece.begin * pieces_.width(), place(part, chunk),
                  piece.count * pieces_.width());
  }
}

}  // namespace dp::engine
