#include "worker/engine/collectives/shm/shm_rank.h"

#include <algorithm>

#include "base/status.h"

namespace dp::engine {

absl::Status ShmRank::Begin(const Collective& collective) {
  ++operations_;
  SharedCall& mine = call(rank_);
  mine.shape = collective.shape;
  mine.heap_place = PlaceInHeap(collective.input);
  if (collective.shape.kind == CallShape::Kind::kExchange) {
    const PieceSizes sizes = PieceSizesOf(collective);
    std::copy(sizes.sent.begin(), sizes.sent.end(), mine.sent);
    std::copy(sizes.expected.begin(), sizes.expected.end(), mine.expected);
  }
  DP_RETURN_IF_ERROR(Await(Tick()));
  return CheckCallsAgree();
}

absl::Status ShmRank::CheckCallsAgree() const {
  std::vector<CallShape> shapes;
  for (int r = 0; r < size_; ++r) shapes.push_back(call(r).shape);
  DP_RETURN_IF_ERROR(CheckShapesAgree(shapes));
  if (shapes[0].kind != CallShape::Kind::kExchange) return absl::OkStatus();
  std::vector<PieceSizes> sizes;
  for (int r = 0; r < size_; ++r)
    sizes.push_back(
        {{call(r).sent, call(r).sent + size_}, {call(r).expected, call(r).expected + size_}});
  return CheckPiecesAgree(sizes);
}

absl::Status ShmRank::Await(uint64_t tick) {
  if (ticks_.AwaitTick(tick) == RankTicks::Wait::kReached) return absl::OkStatus();
  return late_(ticks_.Behind(tick));
}

absl::Status ShmRank::AwaitRank(int rank, uint64_t tick) {
  if (ticks_.AwaitTickOf(rank, tick) == RankTicks::Wait::kReached) return absl::OkStatus();
  return late_({rank});
}

uint8_t* ShmRank::data_in_heap(int rank) const {
  const uint64_t place = call(rank).heap_place;
  return place == 0 ? nullptr : segment_.heap(rank) + (place - 1);
}

uint64_t ShmRank::PlaceInHeap(absl::Span<const uint8_t> data) const {
  const uint8_t* const heap = segment_.heap(rank_);
  const bool inside = data.data() >= heap && data.data() + data.size() <= heap + kHeapBytes;
  return inside ? static_cast<uint64_t>(data.data() - heap) + 1 : 0;
}

}  // namespace dp::engine
