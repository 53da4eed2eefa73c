#include "worker/library/ddp/sharded_states.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/library/ddp/gradient_scale.h"
#include "worker/library/in_engine.h"

namespace dp::library {

using distributed::DistError;
using distributed::ErrorKind;
using distributed::OptimizerPiece;
using distributed::OptimizerStates;
using distributed::Work;

ShardedStates::ShardedStates(ModuleReducer& reducer, size_t states)
    : reducer_(reducer), states_(states) {
  reducer_.ReduceToShards();
  const distributed::ProcessGroup& group = reducer_.group();
  const GradientLayout& layout = reducer_.layout();
  for (const engine::Bucket& bucket : layout.buckets) {
    const BucketShard shard = ShardOf(bucket, group.rank(), group.size());
    shares_.push_back({bucket, shard, PiecesOf(layout, bucket, shard),
                       std::vector<std::vector<float>>(states, std::vector<float>(shard.size()))});
  }
  const absl::Span<uint8_t> memory = reducer_.member().Allocate(layout.bytes);
  values_ = {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
}

void ShardedStates::ForEachPiece(const std::function<void(const OptimizerPiece&)>& each) {
  for (Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      OptimizerPiece given{
          .parameter = piece.parameter,
          .begin = piece.begin,
          .values = reducer_.ValuesOf(piece.parameter).subspan(piece.begin, piece.size),
          .gradients = reducer_.gradients().subspan(piece.offset, piece.size)};
      for (std::vector<float>& state : share.states)
        given.states.push_back(std::span(state).subspan(piece.kept, piece.size));
      each(given);
    }
  }
}

void ShardedStates::GatherValues() {
  for (const Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      const auto from = reducer_.ValuesOf(piece.parameter).subspan(piece.begin, piece.size);
      std::copy(from.begin(), from.end(), values_.begin() + piece.offset);
    }
  }
  std::vector<std::pair<const Share*, Work>> gathers;
  for (const Share& share : shares_) {
    const auto whole = values_.subspan(static_cast<size_t>(share.bucket.offset), share.shard.rest);
    gathers.emplace_back(&share, StartIn(reducer_.member(), [&](engine::Group& group) {
      const engine::Elements all(whole), part(whole.subspan(share.shard.begin, share.shard.part));
      return group.AllGather(part.bytes, all.bytes);
    }));
  }
  const GradientLayout& layout = reducer_.layout();
  for (auto& [share, gather] : gathers) {
    gather.wait();
    // All but the rest, which every rank has updated itself.
    const BucketShard others{
        .part = share->shard.rest, .rest = share->shard.end, .end = share->shard.end};
    for (const ShardPiece& piece : PiecesOf(layout, share->bucket, others)) {
      const auto from = values_.subspan(piece.offset, piece.size);
      std::copy(from.begin(), from.end(),
                reducer_.ValuesOf(piece.parameter).begin() + static_cast<ptrdiff_t>(piece.begin));
    }
  }
}

double ShardedStates::ClipGradients(double max_norm) {
  // Each element once: the rest of a bucket counts on rank 0 alone.
  std::vector<double> squares = {0};
  const bool first = reducer_.group().rank() == 0;
  for (const Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      if (piece.kept >= share.shard.part && !first) continue;
      squares[0] += SumOfSquares(reducer_.gradients().subspan(piece.offset, piece.size));
    }
  }
  distributed::all_reduce(squares, distributed::ReduceOp::kSum, reducer_.group());
  const double norm = std::sqrt(squares[0]), factor = ClippingFactor(norm, max_norm);
  if (factor < 1) {
    for (const Share& share : shares_)
      for (const ShardPiece& piece : share.pieces)
        Scale(reducer_.gradients().subspan(piece.offset, piece.size), factor);
  }
  return norm;
}

OptimizerStates ShardedStates::Consolidate(int to) const {
  const distributed::ProcessGroup& group = reducer_.group();
  if (to < 0 || to >= group.size())
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat("consolidate to rank ", to, "; give a rank of the group, 0 to ",
                                 group.size() - 1));
  OptimizerStates whole;
  const auto state_of = [&](size_t parameter, size_t state) -> std::vector<float>& {
    std::vector<std::vector<float>>& all = whole[reducer_.NameOf(parameter)];
    all.resize(states_, std::vector<float>(reducer_.ValuesOf(parameter).size()));
    return all[state];
  };
  for (const Share& share : shares_) {
    for (size_t state = 0; state < states_; ++state) {
      std::vector<float> all(static_cast<size_t>(group.size()) * share.shard.size());
      distributed::all_gather(all, share.states[state], group);
      if (group.rank() != to) continue;
      for (int rank = 0; rank < group.size(); ++rank) {
        const BucketShard shard = ShardOf(share.bucket, rank, group.size());
        const auto kept = all.begin() + rank * static_cast<ptrdiff_t>(shard.size());
        for (const ShardPiece& piece : PiecesOf(reducer_.layout(), share.bucket, shard)) {
          const auto from = kept + static_cast<ptrdiff_t>(piece.kept);
          std::copy(from, from + static_cast<ptrdiff_t>(piece.size),
                    state_of(piece.parameter, state).begin() + static_cast<ptrdiff_t>(piece.begin));
        }
      }
    }
  }
  return whole;
}

void ShardedStates::Load(const OptimizerStates& states) {
  const auto state_of = [&](size_t parameter, size_t state) -> const std::vector<float>& {
    const std::string& name = reducer_.NameOf(parameter);
    const size_t size = reducer_.ValuesOf(parameter).size();
    const auto found = states.find(name);
    if (found != states.end() && found->second.size() == states_ &&
        found->second[state].size() == size)
      return found->second[state];
    const std::string has =
        found == states.end()
            ? "nothing"
            : absl::StrCat(found->second.size(), " states, of ",
                           found->second.size() > state ? found->second[state].size() : 0,
                           " floats");
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat("the states to load have ", has, " for parameter ", name,
                                 "; give ", states_, " states of ", size, " floats"));
  };
  for (Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      for (size_t state = 0; state < states_; ++state) {
        const auto from =
            state_of(piece.parameter, state).begin() + static_cast<ptrdiff_t>(piece.begin);
        std::copy(from, from + static_cast<ptrdiff_t>(piece.size),
                  share.states[state].begin() + static_cast<ptrdiff_t>(piece.kept));
      }
    }
  }
}

size_t ShardedStates::floats_kept() const {
  size_t floats = 0;
  for (const Share& share : shares_) floats += states_ * share.shard.size();
  return floats;
}

}  // namespace dp::library

namespace dp::distributed {

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(DistributedDataParallel& ddp, size_t states,
                                                 Update update)
    : shards_(std::make_unique<library::ShardedStates>(ddp.reducer(), states)),
      update_(std::move(update)) {}
ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() = default;

void ZeroRedundancyOptimizer::step() {
  shards_->ForEachPiece(update_);
  shards_->GatherValues();
}
double ZeroRedundancyOptimizer::clip_grad_norm(double max_norm) {
  return shards_->ClipGradients(max_norm);
}
OptimizerStates ZeroRedundancyOptimizer::consolidate(int to) const {
  return shards_->Consolidate(to);
}
void ZeroRedundancyOptimizer::load(const OptimizerStates& states) { shards_->Load(states); }
size_t ZeroRedundancyOptimizer::floats_kept() const { return shards_->floats_kept(); }

}  // namespace dp::distributed
