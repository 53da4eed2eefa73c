#include "worker/library/ddp/module_reducer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/ddp/replica.h"
#include "worker/library/ddp/bucket_shards.h"
#include "worker/library/ddp/comm_hooks.h"
#include "worker/library/ddp/gradient_scale.h"
#include "worker/library/ddp/module_check.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;
using distributed::MutableElements;
using distributed::ReduceOp;

constexpr double kMebibyte = 1 << 20;

engine::BucketPlanOptions BucketsOf(const distributed::DistributedDataParallelOptions& options) {
  engine::BucketPlanOptions buckets;
  buckets.cap_bytes = static_cast<int64_t>(options.bucket_cap_mb * kMebibyte);
  buckets.first_bytes = std::min(buckets.first_bytes, buckets.cap_bytes);
  return buckets;
}

std::vector<distributed::Parameter> CheckedParameters(
    distributed::Module& module, const distributed::DistributedDataParallelOptions& options,
    const JoinedGroup& member) {
  std::optional<int> gpu;
  if (member.nccl()) gpu = member.nccl()->device;
  CheckOptions(options, gpu);
  std::vector<distributed::Parameter> parameters = module.parameters();
  CheckModule(parameters, module.buffers());
  return parameters;
}

// `root` is a rank of the group.
distributed::Work BroadcastIn(JoinedGroup& member, const MutableElements& data, int root) {
  return StartIn(member, "broadcast", {data},
                 [to = InEngine(data).bytes, root](engine::Group& group) {
                   return group.Broadcast(to, root);
                 });
}

// Throws for a parameter that is not in the memory of the group's GPU.
void CheckOnGpu(const JoinedGroup& member, const std::vector<distributed::Parameter>& parameters) {
  const auto check = [&](const MutableElements& values, const std::string& what) {
    (void)OrThrow(AreOnDevice(*member.nccl(), what, {values}), ErrorSource::kCaller,
                  member.Context());
  };
  for (const distributed::Parameter& parameter : parameters) {
    check(parameter.values, absl::StrCat("parameter ", parameter.name));
    if (parameter.gradient)
      check(*parameter.gradient, absl::StrCat("the gradient of parameter ", parameter.name));
  }
}

// The last layer's gradients are ready first.
std::vector<size_t> LastFirst(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

}  // namespace

ModuleReducer::ModuleReducer(distributed::Module& module,
                             const distributed::DistributedDataParallelOptions& options)
    : module_(module),
      options_(options),
      group_(GroupOrDefault(options.process_group)),
      parameters_(CheckedParameters(module, options, member())),
      claim_(module, parameters_),
      buffers_(module.buffers()),
      sizes_(GradientSizesOf(parameters_)),
      progress_(NamesOf(parameters_), {options.find_unused_parameters, options.static_graph}),
      hook_(options.reduce_type ? AllReduceAs(*options.reduce_type) : distributed::allreduce_hook),
      is_view_(parameters_.size()),
      used_(parameters_.size(), true),
      round_(RoundOfAll(group_.size())) {
  if (member().nccl()) CheckOnGpu(member(), parameters_);
  constexpr absl::string_view kSameModel = "build the same model on every rank";
  CheckReplicas("option", Describe(options_), "give every rank the same options");
  CheckReplicas("parameter", Describe(parameters_), kSameModel);
  CheckReplicas("buffer", Describe(buffers_), kSameModel);
  TakeReplicaOf(0);
  const std::vector<size_t> ready = LastFirst(parameters_.size());
  memory_ = member().Allocate(LayOutGradients(sizes_, ready, BucketsOf(options_)).bytes);
  memory_held_ = member().HoldMemory();
  LayOut(ready);
  // Where the order of readiness may change, that of the first backward says nothing.
  layout_stays_ = options_.find_unused_parameters && !options_.static_graph;
}

ModuleReducer::~ModuleReducer() {
  const bool fails = std::uncaught_exceptions() > exceptions_before_;
  if (progress_.begun() || !ends_.empty() || (fails && awaits_backward_))
    member().Abort("DistributedDataParallel ended within a backward");
}

void ModuleReducer::CheckReplicas(absl::string_view kind, const std::string& lines,
                                  absl::string_view remedy) const {
  const absl::Status agree = engine::CheckReplicasAgree(member().here(), kind, lines);
  if (absl::IsFailedPrecondition(agree)) {
    throw DistError(ErrorKind::kMismatch,
                    absl::StrCat(member().Context(), ": ", agree.message(), "; ", remedy));
  }
  OrThrow(agree, ErrorSource::kOperation, member().Context());
}

void ModuleReducer::TakeReplicaOf(int root) {
  const auto take = [&](const MutableElements& values) {
    BroadcastIn(member(), values, root).wait();
  };
  for (const distributed::Parameter& parameter : parameters_) take(parameter.values);
  for (const distributed::Buffer& buffer : buffers_) take(buffer.values);
}

void ModuleReducer::TakeBuffersOf(int root) {
  for (const distributed::Buffer& buffer : buffers_)
    BroadcastIn(member(), buffer.values, root).wait();
}

absl::Span<uint8_t> ModuleReducer::MemoryOf(size_t parameter) const {
  return memory_.subspan(layout_.offset_bytes(parameter), sizes_[parameter].bytes());
}

void ModuleReducer::LayOut(absl::Span<const size_t> ready) {
  // The gradients as they are now, since the new places may be where others are.
  GroupMemory& gpu_or_host = member().memory();
  BorrowedMemory before = gpu_or_host.Borrow(memory_.size());
  gpu_or_host.Copy(memory_, before->data());
  const GradientLayout old =
      std::exchange(layout_, LayOutGradients(sizes_, ready, BucketsOf(options_)));
  gpu_or_host.Zero(memory_);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const absl::Span<uint8_t> memory = MemoryOf(p);
    if (is_view_[p]) {
      gpu_or_host.Copy(before->subspan(old.offset_bytes(p), memory.size()), memory.data());
    } else {
      CopyIn(p);
    }
    if (!options_.gradient_as_bucket_view) continue;
    const MutableElements& values = parameters_[p].values;
    is_view_[p] = module_.move_gradient(p, {memory.data(), values.count, values.type});
    if (is_view_[p]) claim_.AddGradient(parameters_[p]);
  }
  before.reset();
  gpu_or_host.FreeSpare();  // as much as all gradients, which no step needs again
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (is_view_[p] || parameters_[p].gradient) continue;
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat(member().Context(), ": parameter ", parameters_[p].name,
                                 " has no gradient; give it memory for one, or take the memory "
                                 "that move_gradient offers"));
  }
  schedule_.emplace(layout_.buckets);
}

void ModuleReducer::LayOutAsOn(int root) {
  std::vector<size_t> ready = progress_.order();
  if (ready.size() != parameters_.size()) ready = LastFirst(parameters_.size());  // no backward yet
  std::vector<int64_t> order(ready.begin(), ready.end());
  BroadcastIn(member(), order, root).wait();
  LayOut(std::vector<size_t>(order.begin(), order.end()));
}

void ModuleReducer::CheckUsable() const {
  if (failure_) std::rethrow_exception(failure_);
  (void)member().here();
  if (!shards_ || !shards_held_.expired()) return;
  throw DistError(
      ErrorKind::kWrongState,
      absl::StrCat(member().Context(),
                   ": the ZeroRedundancyOptimizer has ended, and only it updates by the "
                   "shares of this DistributedDataParallel; keep it as long as the "
                   "model trains, or make both anew"));
}

void ModuleReducer::CheckFinished(absl::string_view call) const {
  member().CheckProcess();
  if (!progress_.begun()) return;
  throw DistError(ErrorKind::kWrongState,
                  absl::StrCat(member().Context(), ": ", call,
                               ": the last backward was not finished; call finish_backward first"));
}

void ModuleReducer::BeginForward() {
  CheckUsable();
  CheckFinished("begin_forward");
  awaits_backward_ = sync_;
  if (joining_) {
    round_ = Announce(sync_ ? Presence::kTraining : Presence::kAccumulating);
    announced_ = true;
  }
  if (sync_) PrepareForward(round_);
}

void ModuleReducer::PrepareForward(const Round& round) {
  if (synced_once_ && !layout_stays_) {
    LayOutAsOn(round.root());
    layout_stays_ = true;
  }
  if (options_.broadcast_buffers) TakeBuffersOf(round.root());
}

void ModuleReducer::GradientReady(size_t parameter) {
  CheckUsable();
  if (joining_ && !announced_) {
    throw DistError(ErrorKind::kWrongState,
                    absl::StrCat(member().Context(),
                                 ": a backward within join without begin_forward; call it before "
                                 "each forward"));
  }
  if (!progress_.begun()) backward_syncs_ = sync_;
  const std::vector<size_t> complete =
      OrThrow(progress_.Report(parameter), ErrorSource::kCaller, member().Context());
  if (backward_syncs_) Complete(complete);
}

void ModuleReducer::Complete(absl::Span<const size_t> parameters) {
  for (const size_t parameter : parameters) {
    CopyIn(parameter);
    CompletePlace(layout_.places[parameter]);
  }
}

void ModuleReducer::CompletePlace(size_t place) {
  const std::vector<int> complete = schedule_->Ready(static_cast<int>(place));
  Exchange([&] {
    for (const int bucket : complete) Launch(bucket);
  });
}

void ModuleReducer::Exchange(const std::function<void()>& part) {
  try {
    part();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void ModuleReducer::CopyIn(size_t parameter) {
  const std::optional<MutableElements>& own = parameters_[parameter].gradient;
  if (!is_view_[parameter] && own)
    member().memory().Copy(InEngine(*own).bytes, MemoryOf(parameter).data());
}

void ModuleReducer::CopyOut(size_t parameter) {
  if (is_view_[parameter]) return;
  auto* const own = static_cast<uint8_t*>(parameters_[parameter].gradient->data);
  member().memory().Copy(MemoryOf(parameter), own);
}

MutableElements ModuleReducer::ElementsOf(const engine::Bucket& bucket) const {
  const size_t element = engine::SizeOf(bucket.type);
  return {memory_.data() + static_cast<size_t>(bucket.offset) * element,
          static_cast<size_t>(bucket.size), TypeOutside(bucket.type)};
}

void ModuleReducer::FinishBackward() {
  CheckUsable();
  announced_ = false;
  if (!(progress_.begun() ? backward_syncs_ : sync_)) return progress_.FinishWithoutSync();
  Complete(OrThrow(progress_.Finish(), ErrorSource::kCaller, member().Context()));
  Exchange([this] { EndBuckets(); });
  ShareUse(progress_.used());
  progress_.ForgetUse();
  for (size_t p = 0; p < parameters_.size(); ++p) CopyOut(p);
  awaits_backward_ = false;
  if (options_.check_reduction) CheckReduction();
}

void ModuleReducer::EndBuckets() {
  const auto ranks = static_cast<double>(group_.size());
  const bool of_training = joining_ && !joining_->divide_by_initial_world_size;
  for (size_t bucket = 0; bucket < ends_.size(); ++bucket) {
    EndBucket(bucket);
    if (of_training && !round_.done.empty()) {
      member().memory().Scale(ElementsOf(layout_.buckets[bucket]),
                              ranks / static_cast<double>(round_.training.size()));
    }
  }
  ends_.clear();
  schedule_->Begin();
  synced_once_ = true;
}

void ModuleReducer::ShareUse(absl::Span<const uint8_t> used) {
  const bool shares = options_.static_graph ? !use_known_ : options_.find_unused_parameters;
  if (!shares) return;
  std::vector<uint8_t> by_any(used.begin(), used.end());
  distributed::all_reduce(by_any, ReduceOp::kMax, group_);
  used_.assign(by_any.begin(), by_any.end());
  use_known_ = true;
}

void ModuleReducer::CheckReduction() {
  std::vector<uint8_t> on_host(memory_.size());
  member().memory().Read(memory_, on_host.data());
  const std::vector<int64_t> mine = {static_cast<int64_t>(ChecksumOf(on_host))};
  std::vector<int64_t> all(static_cast<size_t>(group_.size()));
  distributed::all_gather(all, mine, group_);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw DistError(
        ErrorKind::kMismatch,
        absl::StrCat(member().Context(), ": check_reduction: the gradients of rank ", rank,
                     " differ from those of rank 0 after the backward; look for "
                     "code that writes to gradients before finish_backward returns"));
  }
}

double ModuleReducer::ClipGradients(double max_norm) {
  if (shards_)
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat(member().Context(),
                                 ": clip_grad_norm of a DistributedDataParallel whose ranks have "
                                 "shares; call that of the ZeroRedundancyOptimizer"));
  CheckFinished("clip_grad_norm");
  return ClipByNorm(member().memory(), Gradients(), max_norm);
}

void ModuleReducer::ZeroGradients() {
  member().CheckProcess();
  if (std::find(is_view_.begin(), is_view_.end(), false) == is_view_.end())
    return member().memory().Zero(memory_);
  for (const MutableElements& gradient : Gradients())
    member().memory().Zero(InEngine(gradient).bytes);
}

std::vector<MutableElements> ModuleReducer::Gradients() const {
  std::vector<MutableElements> gradients;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const MutableElements& values = parameters_[p].values;
    gradients.push_back(is_view_[p] ? MutableElements(MemoryOf(p).data(), values.count, values.type)
                                    : *parameters_[p].gradient);
  }
  return gradients;
}

void ModuleReducer::CheckGiven(bool given, absl::string_view call) const {
  if (given) return;
  throw DistError(ErrorKind::kInvalidArgument,
                  absl::StrCat(member().Context(), ": ", call,
                               " of an empty function; give one that can be called"));
}

absl::Span<float> ModuleReducer::ValuesOf(size_t parameter) const {
  const MutableElements& values = parameters_[parameter].values;
  return {static_cast<float*>(values.data), values.count};
}

absl::Span<float> ModuleReducer::gradients() const {
  return {reinterpret_cast<float*>(memory_.data()), memory_.size() / sizeof(float)};
}

}  // namespace dp::library
