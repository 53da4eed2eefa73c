#include "worker/engine/collectives/gloo/gloo_all_reduce.h"

#include <algorithm>

#include "worker/engine/collectives/ordered_reduce.h"

namespace dp::engine {
namespace {

// A slice is what one rank reduces; a segment is one send. Each segment costs Gloo two notices and
// two wakes. Short slices use segments just large enough to make that cost negligible. Long slices
// use longer segments, as long as enough of them remain to overlap.
constexpr size_t kSegmentFloatsMin = size_t{64} << 10;
constexpr size_t kSegmentFloatsMax = size_t{256} << 10;
constexpr size_t kSegmentsWanted = 8;
// Segments of one peer that may be in flight: one arrives while another is summed, and the notice
// for the next travels meanwhile.
constexpr size_t kWindow = 3;
// Up to this many floats from all peers together, every rank sends everything to every rank and
// reduces all of it. One exchange then replaces two, at the price of more bytes.
constexpr size_t kExchangeFloats = size_t{64} << 10;

// The segments of one slice: the same for its owner and for its peers.
struct Segments {
  explicit Segments(size_t slice_count)
      : total(slice_count),
        size(std::clamp(slice_count / kSegmentsWanted, kSegmentFloatsMin, kSegmentFloatsMax)),
        count((slice_count + size - 1) / size) {}

  Slice at(size_t segment) const {
    const size_t begin = segment * size;
    return {begin, std::min(size, total - begin)};
  }

  size_t total;  // floats
  size_t size;   // floats in each but the last
  size_t count;
};

// One all-reduce in progress. Every rank owns a slice. Its peers send it their parts of the slice;
// it reduces them segment by segment and sends each result back to all.
class AllReduce {
 public:
  AllReduce(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot, absl::Span<float> data,
            ReduceOp op, std::vector<float>& scratch)
      : mesh_(mesh),
        transfers_(transfers),
        part_slot_(slot),
        result_slot_(slot + 1),
        data_(data),
        op_(op),
        scratch_(scratch),
        mine_(SliceOf(data.size(), mesh.rank(), mesh.size())),
        segments_(mine_.count) {}

  void AddLanes() {
    const size_t room = std::min(kWindow * segments_.size, mine_.count);
    scratch_.resize(std::max(scratch_.size(), room * (mesh_.size() - 1)));
    for (int r = 0; r < mesh_.size(); ++r) {
      if (r == mesh_.rank()) continue;
      Peer peer;
      peer.rank = r;
      peer.slice = SliceOf(data_.size(), r, mesh_.size());
      peer.parts = scratch_.data() + room * peers_.size();
      peer.theirs = Lane(r, data_.data() + peer.slice.begin, peer.slice.count);
      peer.mine = Lane(r, data_.data() + mine_.begin, mine_.count);
      peer.arriving = Lane(r, peer.parts, room);
      peers_.push_back(peer);
    }
  }

  bool Run() {
    for (size_t s = 0; s < std::min(kWindow, segments_.count); ++s)
      if (!ExpectParts(s)) return false;
    if (!SendPartsExpectResults()) return false;
    for (size_t s = 0; s < segments_.count; ++s)
      if (!ReduceSegment(s)) return false;
    return transfers_.WaitAll();
  }

 private:
  struct Peer {
    int rank = 0;
    Slice slice;             // the slice that this peer owns
    float* parts = nullptr;  // room for kWindow segments of the peer's part of my slice
    int theirs = 0;          // lane over the peer's slice: my part goes out, the result comes in
    int mine = 0;            // lane over my slice: the result goes out
    int arriving = 0;        // lane over `parts`
  };

  int Lane(int rank, float* floats, size_t count) {
    return transfers_.AddLane(rank, floats, count * sizeof(float));
  }
  bool Send(int lane, uint64_t slot, Slice floats) {
    return transfers_.Send(lane, slot, floats.begin * sizeof(float), floats.count * sizeof(float));
  }
  bool Receive(int lane, uint64_t slot, Slice floats) {
    return transfers_.Receive(lane, slot, floats.begin * sizeof(float),
                              floats.count * sizeof(float));
  }

  // Where segment `s` of my slice lies in a peer's `parts`.
  Slice PlaceOfPart(size_t s) const {
    return {(s % kWindow) * segments_.size, segments_.at(s).count};
  }

  bool ExpectParts(size_t s) {
    for (const Peer& peer : peers_)
      if (!Receive(peer.arriving, part_slot_, PlaceOfPart(s))) return false;
    return true;
  }

  // A result overwrites the part that was sent from the same place. The result cannot arrive before
  // its owner has that part.
  bool SendPartsExpectResults() {
    for (const Peer& peer : peers_) {
      const Segments segments(peer.slice.count);
      for (size_t s = 0; s < segments.count; ++s)
        if (!Send(peer.theirs, part_slot_, segments.at(s)) ||
            !Receive(peer.theirs, result_slot_, segments.at(s)))
          return false;
    }
    return true;
  }

  bool ReduceSegment(size_t s) {
    const Slice segment = segments_.at(s);
    float* const out = data_.data() + mine_.begin + segment.begin;
    std::vector<const float*> inputs(mesh_.size(), out);
    for (const Peer& peer : peers_) {
      if (!transfers_.WaitReceived(peer.arriving)) return false;
      inputs[peer.rank] = peer.parts + PlaceOfPart(s).begin;
    }
    ReduceInOrder(inputs, segment.count, op_, out);
    for (const Peer& peer : peers_)
      if (!Send(peer.mine, result_slot_, segment)) return false;
    return s + kWindow >= segments_.count || ExpectParts(s + kWindow);
  }

  const GlooMesh& mesh_;
  GlooTransfers& transfers_;
  const uint64_t part_slot_;
  const uint64_t result_slot_;
  const absl::Span<float> data_;
  const ReduceOp op_;
  std::vector<float>& scratch_;
  const Slice mine_;
  const Segments segments_;  // of mine_
  std::vector<Peer> peers_;
};

// Every rank gets every rank's data and reduces all of it.
bool Exchange(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot, absl::Span<float> data,
              ReduceOp op, std::vector<float>& scratch, const std::function<bool()>& ready) {
  const size_t count = data.size(), bytes = count * sizeof(float);
  scratch.resize(std::max(scratch.size(), count * mesh.size()));
  std::vector<const float*> inputs(mesh.size(), data.data());
  for (int r = 0; r < mesh.size(); ++r) {
    if (r == mesh.rank()) continue;
    float* const theirs = scratch.data() + r * count;
    inputs[r] = theirs;
    transfers.AddLane(r, theirs, bytes);
    transfers.AddLane(r, data.data(), bytes);
  }
  if (!ready()) return false;
  for (int lane = 0; lane < 2 * (mesh.size() - 1); lane += 2)
    if (!transfers.Receive(lane, slot, 0, bytes) || !transfers.Send(lane + 1, slot, 0, bytes))
      return false;
  // My data must have left before the sum overwrites it.
  if (!transfers.WaitAll()) return false;
  ReduceInOrder(inputs, count, op, data.data());
  return true;
}

}  // namespace

bool OrderedAllReduce(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot,
                      absl::Span<float> data, ReduceOp op, std::vector<float>& scratch,
                      const std::function<bool()>& ready) {
  if (data.size() * (mesh.size() - 1) <= kExchangeFloats)
    return Exchange(mesh, transfers, slot, data, op, scratch, ready);
  AllReduce all_reduce(mesh, transfers, slot, data, op, scratch);
  all_reduce.AddLanes();
  return ready() && all_reduce.Run();
}

}  // namespace dp::engine
