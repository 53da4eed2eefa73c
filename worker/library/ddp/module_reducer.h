#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dp/ddp.h"
#include "worker/engine/ddp/bucket_schedule.h"
#include "worker/library/ddp/backward_progress.h"
#include "worker/library/ddp/gradient_layout.h"
#include "worker/library/ddp/module_claim.h"
#include "worker/library/ddp/uneven_inputs.h"
#include "worker/library/joined_group.h"

namespace dp::library {

// Averages the gradients of a module over the ranks of a group: the implementation of
// DistributedDataParallel, whose header says what each call does. Throws DistError.
class ModuleReducer {
 public:
  ModuleReducer(distributed::Module& module,
                const distributed::DistributedDataParallelOptions& options);
  // In the middle of a backward, as while an exception passes, it aborts the group: waiting for
  // peers might not end.
  ~ModuleReducer();

  void BeginForward();
  void GradientReady(size_t parameter);
  void FinishBackward();
  void Join(const std::function<void()>& train, const distributed::JoinOptions& options);
  void SetHook(distributed::CommHook hook);
  // Returns what it was.
  bool SetSync(bool sync) { return std::exchange(sync_, sync); }
  bool sync() const { return sync_; }

  std::vector<distributed::MutableElements> Gradients() const;
  void ZeroGradients();
  double ClipGradients(double max_norm);
  const std::vector<bool>& used_parameters() const { return used_; }
  size_t buckets() const { return layout_.buckets.size(); }

  // No backward is in progress, and this is the process that joined. `call` needs both.
  void CheckFinished(absl::string_view call) const;
  // The function that `call` was given is not empty.
  void CheckGiven(bool given, absl::string_view call) const;
  // All ranks have the same `lines` of a kind: "option", "parameter" or "buffer". All ranks call
  // it, and all get the same error, which ends with the remedy.
  void CheckReplicas(absl::string_view kind, const std::string& lines,
                     absl::string_view remedy) const;

  // From now on a backward leaves only this rank's share of each bucket as the mean (BucketShard),
  // and the layout stays. Parameters are of float32. Steps are errors once nobody holds the result.
  [[nodiscard]] std::shared_ptr<const void> ReduceToShards();
  const GradientLayout& layout() const { return layout_; }
  const distributed::ProcessGroup& group() const { return group_; }
  JoinedGroup& member() const { return MemberOf(group_); }
  const std::string& NameOf(size_t parameter) const { return parameters_[parameter].name; }
  // Only for parameters of float32: the values of one, and all gradients.
  absl::Span<float> ValuesOf(size_t parameter) const;
  absl::Span<float> gradients() const;

 private:
  // Throws the error of an exchange again, if there was one. Throws kWrongState if the rank has
  // left the group, or if shares are dealt and nobody holds them.
  void CheckUsable() const;
  // Another way to average may be set now. `call` sets it.
  void CheckHookMayChange(absl::string_view call) const;
  void TakeReplicaOf(int root);
  void TakeBuffersOf(int root);

  // The memory of one parameter's gradient in the array.
  absl::Span<uint8_t> MemoryOf(size_t parameter) const;
  // Makes the layout for the order `ready`, and moves the gradients to it.
  void LayOut(absl::Span<const size_t> ready);
  // After the first backward: the order in which rank `root` had its gradients.
  void LayOutAsOn(int root);

  // Between memory_ and a gradient that the module keeps elsewhere.
  void CopyIn(size_t parameter);
  void CopyOut(size_t parameter);
  void Complete(absl::Span<const size_t> parameters);
  // Runs a part of the exchange of buckets, and remembers its error.
  void Exchange(const std::function<void()>& part);
  // Launches the buckets that are complete with this gradient.
  void CompletePlace(size_t place);
  std::string HookName() const;  // for errors
  void Launch(int bucket);
  void EndBucket(size_t bucket);
  void EndBuckets();
  // Every rank learns which parameters any rank used; `used` are this rank's.
  void ShareUse(absl::Span<const uint8_t> used);
  void CheckReduction();
  distributed::MutableElements ElementsOf(const engine::Bucket& bucket) const;

  // All ranks together, before a forward whose gradients they average.
  void PrepareForward(const Round& round);
  // Tells the other ranks, and learns from them, what comes next. While joining.
  Round Announce(Presence presence);
  // Takes part in the others' exchanges until all are done.
  void Shadow();

  distributed::Module& module_;
  const distributed::DistributedDataParallelOptions options_;
  const distributed::ProcessGroup group_;
  std::vector<distributed::Parameter> parameters_;
  ModuleClaim claim_;
  const std::vector<distributed::Buffer> buffers_;
  const std::vector<GradientSize> sizes_;  // by parameter
  BackwardProgress progress_;
  distributed::CommHook hook_;
  bool hook_is_given_ = false;  // by register_comm_hook

  absl::Span<uint8_t> memory_;  // the group's; all gradients
  // The module's gradients may lie there after the rank has left the group.
  std::shared_ptr<const void> memory_held_;
  GradientLayout layout_;
  std::vector<bool> is_view_;  // by parameter: the module keeps its gradient in memory_
  std::optional<engine::BucketSchedule> schedule_;
  std::vector<std::function<void()>> ends_;  // by bucket, as far as launched
  std::vector<bool> used_;                   // by parameter, on any rank
  // The first error of an exchange of buckets. Peers may have exchanged others by then, so that no
  // later backward fits theirs.
  std::exception_ptr failure_;

  const int exceptions_before_ = std::uncaught_exceptions();
  bool awaits_backward_ = false;  // since a begin_forward, after which peers exchange gradients
  bool sync_ = true;
  bool backward_syncs_ = true;  // sync_ when the backward began
  bool synced_once_ = false;    // a backward was averaged
  bool layout_stays_ = false;   // the order of readiness does not change it any more
  bool shards_ = false;         // ReduceToShards was called
  std::weak_ptr<const void> shards_held_;
  bool use_known_ = false;  // of a static graph
  std::optional<distributed::JoinOptions> joining_;
  bool announced_ = false;          // while joining: since the last backward
  Round round_;                     // of the last begin_forward
  std::optional<int> uneven_root_;  // while joining: a rank that trained longest
};

}  // namespace dp::library
