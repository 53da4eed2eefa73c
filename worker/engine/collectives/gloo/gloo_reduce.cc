#include "worker/engine/collectives/gloo/gloo_reduce.h"

#include <algorithm>

#include "worker/engine/collectives/reduce/ordered_reduce.h"

namespace dp::engine {
namespace {

// A slice is what one rank reduces; a segment is one send. Each segment costs Gloo two notices and
// two wakes. Short slices use segments just large enough to make that cost negligible. Long slices
// use longer segments, as long as enough of them remain to overlap.
constexpr size_t kSegmentBytesMin = size_t{256} << 10;
constexpr size_t kSegmentBytesMax = size_t{1} << 20;
constexpr size_t kSegmentsWanted = 8;
// Segments of one peer that may be in flight: one arrives while another is summed, and the notice
// for the next travels meanwhile.
constexpr size_t kWindow = 3;
// Up to this many bytes from all peers together, every rank sends everything to every rank and
// reduces all of it. One exchange then replaces two, at the price of more bytes.
constexpr size_t kExchangeBytes = size_t{256} << 10;

// The segments of one slice: the same for its owner and for its peers.
struct Segments {
  Segments(size_t slice_count, DataType type)
      : total(slice_count),
        size(std::clamp(slice_count / kSegmentsWanted, kSegmentBytesMin / SizeOf(type),
                        kSegmentBytesMax / SizeOf(type))),
        count((slice_count + size - 1) / size) {}

  Slice at(size_t segment) const {
    const size_t begin = segment * size;
    return {begin, std::min(size, total - begin)};
  }

  size_t total;  // elements
  size_t size;   // elements in each but the last
  size_t count;
};

// One reduction in progress. Every rank owns a slice, which may be empty. Its peers send it their
// parts of the slice, which it reduces segment by segment. In an all-reduce it sends each result
// back to all.
class SlicedReduce {
 public:
  SlicedReduce(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot,
               const Collective& call, std::vector<uint8_t>& scratch)
      : mesh_(mesh),
        transfers_(transfers),
        part_slot_(slot),
        result_slot_(slot + 1),
        call_(call),
        all_get_results_(call.shape.kind == CallShape::Kind::kAllReduce),
        element_(SizeOf(call.shape.type)),
        scratch_(scratch),
        mine_(SliceOfRank(mesh.rank())),
        segments_(mine_.count, call.shape.type) {}

  void AddLanes() {
    const size_t room = std::min(kWindow * segments_.size, mine_.count) * element_;
    scratch_.resize(std::max(scratch_.size(), room * (mesh_.size() - 1)));
    // Gloo takes memory to be written even for what it only sends.
    auto* const input = const_cast<uint8_t*>(call_.input.data());
    for (int r = 0; r < mesh_.size(); ++r) {
      if (r == mesh_.rank()) continue;
      Peer peer;
      peer.rank = r;
      peer.slice = SliceOfRank(r);
      peer.parts = scratch_.data() + room * peers_.size();
      peer.theirs =
          transfers_.AddLane(r, input + peer.slice.begin * element_, peer.slice.count * element_);
      peer.mine = transfers_.AddLane(r, Output(0), mine_.count * element_);
      peer.arriving = transfers_.AddLane(r, peer.parts, room);
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
    Slice slice;               // the slice that this peer owns
    uint8_t* parts = nullptr;  // room for kWindow segments of the peer's part of my slice
    int theirs = 0;            // lane over the peer's slice: my part goes out, the result comes in
    int mine = 0;              // lane over my slice: the result goes out
    int arriving = 0;          // lane over `parts`
  };

  Slice SliceOfRank(int rank) const {
    const CallShape& shape = call_.shape;
    if (shape.kind == CallShape::Kind::kReduce)
      return rank == shape.root ? Slice{0, shape.count} : Slice{};
    if (shape.kind == CallShape::Kind::kAllReduce) return SliceOf(shape.count, rank, mesh_.size());
    const size_t part = shape.count / static_cast<size_t>(mesh_.size());
    return {part * static_cast<size_t>(rank), part};
  }

  // Where the result of my slice goes, from its element `begin` on.
  uint8_t* Output(size_t begin) const {
    const bool whole = call_.shape.kind != CallShape::Kind::kReduceScatter;
    return call_.output.data() + ((whole ? mine_.begin : 0) + begin) * element_;
  }

  bool Send(int lane, uint64_t slot, Slice elements) {
    return transfers_.Send(lane, slot, elements.begin * element_, elements.count * element_);
  }
  bool Receive(int lane, uint64_t slot, Slice elements) {
    return transfers_.Receive(lane, slot, elements.begin * element_, elements.count * element_);
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
      const Segments segments(peer.slice.count, call_.shape.type);
      for (size_t s = 0; s < segments.count; ++s) {
        if (!Send(peer.theirs, part_slot_, segments.at(s))) return false;
        if (all_get_results_ && !Receive(peer.theirs, result_slot_, segments.at(s))) return false;
      }
    }
    return true;
  }

  bool ReduceSegment(size_t s) {
    const Slice segment = segments_.at(s);
    std::vector<const void*> inputs(mesh_.size(),
                                    call_.input.data() + (mine_.begin + segment.begin) * element_);
    for (const Peer& peer : peers_) {
      if (!transfers_.WaitReceived(peer.arriving)) return false;
      inputs[peer.rank] = peer.parts + PlaceOfPart(s).begin * element_;
    }
    ReduceInOrder(inputs, call_.shape.type, segment.count, ReductionOf(call_.shape),
                  Output(segment.begin));
    if (all_get_results_)
      for (const Peer& peer : peers_)
        if (!Send(peer.mine, result_slot_, segment)) return false;
    return s + kWindow >= segments_.count || ExpectParts(s + kWindow);
  }

  const GlooMesh& mesh_;
  GlooTransfers& transfers_;
  const uint64_t part_slot_;
  const uint64_t result_slot_;
  const Collective& call_;
  const bool all_get_results_;
  const size_t element_;  // in bytes
  std::vector<uint8_t>& scratch_;
  const Slice mine_;
  const Segments segments_;  // of mine_
  std::vector<Peer> peers_;
};

// Every rank gets every rank's data and reduces all of it.
bool ReduceEverything(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot,
                      const Collective& call, std::vector<uint8_t>& scratch,
                      const std::function<bool()>& ready) {
  const size_t bytes = call.input.size();
  scratch.resize(std::max(scratch.size(), bytes * mesh.size()));
  std::vector<const void*> inputs(mesh.size(), call.input.data());
  for (int r = 0; r < mesh.size(); ++r) {
    if (r == mesh.rank()) continue;
    uint8_t* const theirs = scratch.data() + r * bytes;
    inputs[r] = theirs;
    transfers.AddLane(r, theirs, bytes);
    transfers.AddLane(r, call.output.data(), bytes);
  }
  if (!ready()) return false;
  for (int lane = 0; lane < 2 * (mesh.size() - 1); lane += 2)
    if (!transfers.Receive(lane, slot, 0, bytes) || !transfers.Send(lane + 1, slot, 0, bytes))
      return false;
  // My data must have left before the result overwrites it.
  if (!transfers.WaitAll()) return false;
  ReduceInOrder(inputs, call.shape.type, call.shape.count, ReductionOf(call.shape),
                call.output.data());
  return true;
}

}  // namespace

bool GlooReduce(const GlooMesh& mesh, GlooTransfers& transfers, uint64_t slot,
                const Collective& call, std::vector<uint8_t>& scratch,
                const std::function<bool()>& ready) {
  if (call.shape.kind == CallShape::Kind::kAllReduce &&
      call.input.size() * (mesh.size() - 1) <= kExchangeBytes)
    return ReduceEverything(mesh, transfers, slot, call, scratch, ready);
  SlicedReduce reduce(mesh, transfers, slot, call, scratch);
  reduce.AddLanes();
  return ready() && reduce.Run();
}

}  // namespace dp::engine
