#include "worker/library/ddp/sharded_states.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/library/ddp/gradient_scale.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"

namespace dp::library {

using distributed::DistError;
using distributed::ErrorKind;
using distributed::OptimizerPiece;
using distributed::OptimizerStates;
using distributed::Work;

namespace {

void CopyFloats(GroupMemory& memory, absl::Span<const float> from, float* to) {
  memory.Copy(engine::ConstElements(from).bytes, reinterpret_cast<uint8_t*>(to));
}

// An optimizer has a few states for each value. Memory for more would run out without an error.
constexpr size_t kStatesMax = 1024;

// All ranks call it, and all get the same error.
size_t AgreedStates(const ModuleReducer& reducer, size_t states) {
  reducer.CheckReplicas("option", absl::StrCat("states ", states, "\n"),
                        "give every rank's ZeroRedundancyOptimizer the same number of states");
  if (states <= kStatesMax) return states;
  throw DistError(ErrorKind::kLimit,
                  absl::StrCat(reducer.member().Context(), ": ZeroRedundancyOptimizer: states is ",
                               states, "; give the floats that the update keeps for each value, ",
                               kStatesMax, " at most"));
}

}  // namespace

ShardedStates::ShardedStates(ModuleReducer& reducer, size_t states)
    : reducer_(reducer), dealt_(reducer.ReduceToShards()), states_(AgreedStates(reducer, states)) {
  const distributed::ProcessGroup& group = reducer_.group();
  const GradientLayout& layout = reducer_.layout();
  for (const engine::Bucket& bucket : layout.buckets) {
    const BucketShard shard = ShardOf(bucket, group.rank(), group.size());
    Share share{bucket, shard, PiecesOf(layout, bucket, shard), {}};
    for (size_t state = 0; state < states; ++state) {
      share.states.push_back(memory().Borrow(shard.size() * sizeof(float)));
      memory().Zero(*share.states.back());
    }
    shares_.push_back(std::move(share));
  }
  const absl::Span<uint8_t> values = reducer_.member().Allocate(layout.bytes);
  values_ = {reinterpret_cast<float*>(values.data()), values.size() / sizeof(float)};
}

absl::Span<float> ShardedStates::StateOf(const Share& share, size_t state) {
  const absl::Span<uint8_t> bytes = *share.states[state];
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void ShardedStates::ForEachPiece(const std::function<void(const OptimizerPiece&)>& each) {
  for (Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      const auto part = [&](absl::Span<float> whole, size_t begin) {
        return std::span(whole.data() + begin, piece.size);
      };
      OptimizerPiece given{.parameter = piece.parameter,
                           .begin = piece.begin,
                           .values = part(reducer_.ValuesOf(piece.parameter), piece.begin),
                           .gradients = part(reducer_.gradients(), piece.offset)};
      for (size_t state = 0; state < states_; ++state)
        given.states.push_back(part(StateOf(share, state), piece.kept));
      CallProgram("the update of a ZeroRedundancyOptimizer", [&] { each(given); });
    }
  }
}

void ShardedStates::GatherValues() {
  for (const Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      const auto from = reducer_.ValuesOf(piece.parameter).subspan(piece.begin, piece.size);
      CopyFloats(memory(), from, values_.data() + piece.offset);
    }
  }
  std::vector<std::pair<const Share*, Work>> gathers;
  for (const Share& share : shares_) {
    const auto whole = values_.subspan(static_cast<size_t>(share.bucket.offset), share.shard.rest);
    const distributed::MutableElements all(whole.data(), whole.size(),
                                           distributed::DataType::kFloat32);
    gathers.emplace_back(
        &share, StartIn(reducer_.member(), "all_gather", {all}, [&](engine::Group& group) {
          const engine::Elements part(whole.subspan(share.shard.begin, share.shard.part));
          return group.AllGather(part.bytes, InEngine(all).bytes);
        }));
  }
  const GradientLayout& layout = reducer_.layout();
  for (auto& [share, gather] : gathers) {
    gather.wait();
    // All but the rest, which every rank has updated itself.
    const BucketShard others{
        .part = share->shard.rest, .rest = share->shard.end, .end = share->shard.end};
    for (const ShardPiece& piece : PiecesOf(layout, share->bucket, others)) {
      CopyFloats(memory(), values_.subspan(piece.offset, piece.size),
                 reducer_.ValuesOf(piece.parameter).data() + piece.begin);
    }
  }
}

double ShardedStates::ClipGradients(double max_norm) {
  // Each element once: the rest of a bucket counts on rank 0 alone.
  std::vector<distributed::MutableElements> mine;
  std::vector<distributed::Elements> counted;
  const bool first = reducer_.group().rank() == 0;
  for (const Share& share : shares_) {
    for (const ShardPiece& piece : share.pieces) {
      mine.emplace_back(reducer_.gradients().data() + piece.offset, piece.size,
                        distributed::DataType::kFloat32);
      if (piece.kept < share.shard.part || first) counted.push_back(mine.back());
    }
  }
  std::vector<double> squares = {memory().SumOfSquares(counted)};
  distributed::all_reduce(squares, distributed::ReduceOp::kSum, reducer_.group());
  const double norm = std::sqrt(squares[0]), factor = ClippingFactor(norm, max_norm);
  if (IsScaling(factor)) {
    for (const distributed::MutableElements& gradients : mine) memory().Scale(gradients, factor);
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
      std::vector<float> own(share.shard.size());
      memory().Read(*share.states[state], own.data());
      distributed::all_gather(all, own, group);
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
        const float* const from = state_of(piece.parameter, state).data() + piece.begin;
        memory().Write(
            from, engine::Elements(StateOf(share, state).subspan(piece.kept, piece.size)).bytes);
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

namespace {

ZeroRedundancyOptimizer::Update Given(const DistributedDataParallel& ddp,
                                      ZeroRedundancyOptimizer::Update update) {
  ddp.reducer().CheckGiven(update != nullptr, "ZeroRedundancyOptimizer");
  return update;
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(DistributedDataParallel& ddp, size_t states,
                                                 Update update)
    : update_(Given(ddp, std::move(update))),
      shards_(std::make_unique<library::ShardedStates>(ddp.reducer(), states)) {}
ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() = default;

void ZeroRedundancyOptimizer::step() {
  shards_->CheckBetweenBackwards("step");
  shards_->ForEachPiece(update_);
  shards_->GatherValues();
}
double ZeroRedundancyOptimizer::clip_grad_norm(double max_norm) {
  shards_->CheckBetweenBackwards("clip_grad_norm");
  return shards_->ClipGradients(max_norm);
}
OptimizerStates ZeroRedundancyOptimizer::consolidate(int to) const {
  return shards_->Consolidate(to);
}
void ZeroRedundancyOptimizer::load(const OptimizerStates& states) { shards_->Load(states); }
size_t ZeroRedundancyOptimizer::floats_kept() const { return shards_->floats_kept(); }

}  // namespace dp::distributed
