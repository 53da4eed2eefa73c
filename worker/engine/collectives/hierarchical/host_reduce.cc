#include "worker/engine/collectives/hierarchical/host_reduce.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "worker/engine/collectives/hierarchical/host_results.h"
#include "worker/engine/collectives/reduce/block_reduce.h"

namespace dp::engine {
namespace {

// Where the result of a part is made.
enum class MadeBy {
  kOwner,    // which keeps it
  kOneHost,  // by the owner, which passes it to the other hosts
  // By the owner and by its deputies on all hosts. One exchange between hosts then replaces two.
  // Among two hosts both move as many bytes.
  kEveryHost,
};

MadeBy MadeByOf(const CallShape& shape, const HostPlan& plan) {
  if (shape.kind != CallShape::Kind::kAllReduce) return MadeBy::kOwner;
  return plan.hosts() == 2 ? MadeBy::kEveryHost : MadeBy::kOneHost;
}

const std::vector<int>& LargestHost(const HostPlan& plan) {
  int largest = 0;
  for (int host = 1; host < plan.hosts(); ++host)
    if (plan.ranks_of(host).size() > plan.ranks_of(largest).size()) largest = host;
  return plan.ranks_of(largest);
}

std::vector<OwnedPart> PartsOf(const CallShape& shape, const HostPlan& plan) {
  if (shape.kind == CallShape::Kind::kReduce) return {{shape.root, {0, shape.count}}};
  if (MadeByOf(shape, plan) == MadeBy::kEveryHost)
    return PartsOfRanks(LargestHost(plan), shape.count);
  const int ranks = plan.ranks();
  std::vector<OwnedPart> parts;
  const size_t share = shape.count / static_cast<size_t>(ranks);
  for (int r = 0; r < ranks; ++r)
    parts.push_back({r, shape.kind == CallShape::Kind::kAllReduce
                            ? SliceOf(shape.count, r, ranks)
                            : Slice{share * static_cast<size_t>(r), share}});
  return parts;
}

// A reduction in chunks, which overlap. While the sums of chunk c travel, the ranks stage and add
// chunk c + 1. Results of chunk c - 1 travel back at the same time.
//
// For each part that it handles, a rank combines its host's blocks, and sends the sums to the
// owner. The owner combines the blocks of all hosts.
class HostReduce {
 public:
  HostReduce(HostRank& self, HostSteps& steps, const Collective& call)
      : self_(self),
        steps_(steps),
        call_(call),
        blocks_(self.plan->BlocksOf(call.shape.order)),
        accumulator_(SizeOf(AccumulatorOf(call.shape.type))),
        pieces_(PartsOf(call.shape, *self.plan), SizeOf(call.shape.type)),
        results_(self, steps, pieces_),
        made_by_(MadeByOf(call.shape, *self.plan)) {
    blocks_on_.resize(static_cast<size_t>(self.plan->hosts()));
    for (const RankBlock& block : blocks_) blocks_on_[block.host] += 1;
    ReserveSums();
  }

  // Waiting keeps memory from being used twice: a place of chunk c is written again for chunk
  // c + 2. All ranks of the host have then met after the last look at chunk c.
  absl::Status Run() {
    const size_t chunks = pieces_.chunks();
    const bool all_fetch = made_by_ != MadeBy::kOwner;
    std::unique_ptr<Work> sums[2], results[2];
    for (size_t c = 0; c < chunks + 2; ++c) {
      const bool begins = c < chunks, fetches = all_fetch && c >= 2;
      if (begins) Stage(c);
      if (fetches && results[c % 2] != nullptr) DP_RETURN_IF_ERROR(results[c % 2]->Wait());
      if (c == 0) {
        DP_RETURN_IF_ERROR(steps_.MeetEverybody(call_));
      } else if (begins || fetches) {
        DP_RETURN_IF_ERROR(steps_.MeetOnHost());
      }
      if (fetches) results_.Fetch(c - 2, call_.output.data());
      if (begins) sums[c % 2] = AddOnHost(c);
      if (c == 0 || c > chunks) continue;
      DP_RETURN_IF_ERROR(sums[(c - 1) % 2]->Wait());
      AddHosts(c - 1);
      if (made_by_ == MadeBy::kOneHost) results[(c - 1) % 2] = results_.Pass(c - 1);
    }
    // Peers may still read what this rank has staged.
    return all_fetch ? absl::OkStatus() : steps_.MeetOnHost();
  }

 private:
  // The sums that one rank makes of its host's blocks of a part, for two chunks.
  struct Sums {
    int host = 0;
    uint8_t* memory = nullptr;
  };
  struct Task {
    size_t part = 0;
    Sums here;
    // Those of the other hosts, if this rank makes the result.
    std::vector<Sums> elsewhere = {};
  };

  bool Makes(const Task& task) const {
    return made_by_ == MadeBy::kEveryHost || pieces_.owner(task.part) == self_.rank;
  }

  size_t SumBytes() const { return pieces_.most() * accumulator_; }
  size_t BlocksOn(int host) const { return blocks_on_[static_cast<size_t>(host)]; }

  void ReserveSums() {
    const HostPlan& plan = *self_.plan;
    size_t used = 0;
    std::vector<size_t> places;
    const auto reserve = [&](int host) {
      places.push_back(used);
      used += 2 * BlocksOn(host) * SumBytes();
      return Sums{host};
    };
    for (size_t part = 0; part < pieces_.parts(); ++part) {
      if (plan.HandlerOf(pieces_.owner(part), self_.host()) != self_.rank) continue;
      Task& task = tasks_.emplace_back(Task{part, reserve(self_.host())});
      if (!Makes(task)) continue;
      for (int host = 0; host < plan.hosts(); ++host)
        if (host != self_.host()) task.elsewhere.push_back(reserve(host));
    }
    self_.scratch.resize(std::max(self_.scratch.size(), used));
    auto place = places.begin();
    for (Task& task : tasks_) {
      task.here.memory = self_.scratch.data() + *place++;
      for (Sums& sums : task.elsewhere) sums.memory = self_.scratch.data() + *place++;
    }
  }

  uint8_t* SumOf(const Sums& sums, size_t chunk, size_t block) const {
    return sums.memory + (chunk % 2 * BlocksOn(sums.host) + block) * SumBytes();
  }

  // Everything but what this rank reads itself.
  void Stage(size_t c) {
    if (self_.local == nullptr) return;
    for (size_t part = 0; part < pieces_.parts(); ++part) {
      const Slice piece = pieces_.at(part, c);
      if (piece.count == 0 ||
          self_.plan->HandlerOf(pieces_.owner(part), self_.host()) == self_.rank)
        continue;
      std::memcpy(self_.staging[self_.rank].data(c) + pieces_.place(part), InputAt(piece),
                  piece.count * pieces_.width());
    }
  }

  const uint8_t* InputAt(const Slice& piece) const {
    return call_.input.data() + piece.begin * pieces_.width();
  }

  std::unique_ptr<Work> AddOnHost(size_t c) {
    const size_t ranks = static_cast<size_t>(self_.plan->ranks());
    std::vector<absl::Span<const uint8_t>> sent(ranks);
    std::vector<absl::Span<uint8_t>> received(ranks);
    for (const Task& task : tasks_) {
      const Slice piece = pieces_.at(task.part, c);
      const size_t bytes = piece.count == 0 ? 0 : SumBytes();
      const absl::Span<const uint8_t> here{SumOf(task.here, c, 0), BlocksOn(self_.host()) * bytes};
      const int owner = pieces_.owner(task.part);
      AddBlocks(task, piece, c);
      if (!Makes(task)) sent[owner] = here;
      for (const Sums& sums : task.elsewhere) {
        const int peer = self_.plan->HandlerOf(owner, sums.host);
        received[peer] = {SumOf(sums, c, 0), BlocksOn(sums.host) * bytes};
        if (made_by_ == MadeBy::kEveryHost) sent[peer] = here;
      }
    }
    return steps_.Between(std::move(sent), std::move(received));
  }

  void AddBlocks(const Task& task, const Slice& piece, size_t c) {
    size_t block_here = 0;
    for (const RankBlock& block : blocks_) {
      if (block.host != self_.host()) continue;
      std::vector<const void*> inputs;
      for (int r = block.first; r < block.first + block.ranks; ++r)
        inputs.push_back(r == self_.rank ? InputAt(piece)
                                         : self_.staging[r].data(c) + pieces_.place(task.part));
      ReduceBlock(inputs, call_.shape.type, piece.count, ReductionOf(call_.shape),
                  SumOf(task.here, c, block_here++));
    }
  }

  void AddHosts(size_t c) {
    for (const Task& task : tasks_) {
      if (!Makes(task)) continue;
      std::vector<const Sums*> by_host(blocks_on_.size(), &task.here);
      for (const Sums& sums : task.elsewhere) by_host[sums.host] = &sums;
      std::vector<size_t> next(blocks_on_.size());
      std::vector<CombinedBlock> all;
      for (const RankBlock& block : blocks_)
        all.push_back({block.ranks, SumOf(*by_host[block.host], c, next[block.host]++)});
      ReduceBlocks(all, call_.shape.type, pieces_.at(task.part, c).count, ReductionOf(call_.shape),
                   ResultOf(task, c));
    }
  }

  uint8_t* ResultOf(const Task& task, size_t c) const {
    if (made_by_ != MadeBy::kOwner) return results_.place(task.part, c);
    const size_t begin = pieces_.at(task.part, c).begin - pieces_.at(task.part, 0).begin;
    return call_.output.data() + begin * pieces_.width();
  }

  HostRank& self_;
  HostSteps& steps_;
  const Collective& call_;
  const std::vector<RankBlock> blocks_;
  std::vector<size_t> blocks_on_;  // their number, by host
  const size_t accumulator_;       // its width in bytes
  const OwnedPieces pieces_;
  const HostResults results_;
  const MadeBy made_by_;
  std::vector<Task> tasks_;  // the parts that this rank handles
};

}  // namespace

absl::Status ReduceOverHosts(HostRank& self, HostSteps& steps, const Collective& call) {
  return HostReduce(self, steps, call).Run();
}

}  // namespace dp::engine
