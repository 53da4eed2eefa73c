#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp/distributed.h"
#include "dp/module.h"

// DistributedDataParallel for models of any kind: docs/library.md.

namespace dp::library {
class ModuleReducer;
}

namespace dp::distributed {

// Gradients that travel together, as a communication hook gets them.
struct GradientBucket {
  size_t index = 0;  // buckets begin in this order on every rank
  bool is_last = false;
  // This rank's gradients, one after the other, with gaps of zeros. In the group's memory.
  MutableElements gradients;
  // The parameters, by their index in Module::parameters, in the order in which they lie there.
  std::vector<size_t> parameters;
  ProcessGroup group;
};

// Averages a bucket over the ranks. It is called as soon as this rank's gradients are complete, by
// the thread that reports them, and begins the communication. finish_backward calls the function
// that it returns, in the order of the buckets: it ends the communication, and leaves the mean in
// bucket.gradients. Every rank has the same hook.
using CommHook = std::function<std::function<void()>(const GradientBucket& bucket)>;

// The mean by one all-reduce: the default.
std::function<void()> allreduce_hook(const GradientBucket& bucket);
// The same with half the bytes. Each rank's gradients are rounded to 16 bits, then added as float,
// and their mean is rounded once more.
std::function<void()> fp16_compress_hook(const GradientBucket& bucket);
std::function<void()> bf16_compress_hook(const GradientBucket& bucket);

struct DistributedDataParallelOptions {
  // For the reader only: at most one device, as a rank has one. "cpu", or over backend nccl the
  // group's, as "cuda:0".
  std::vector<std::string> device_ids = {};
  std::string output_device = {};
  int dim = 0;  // where a rank's batch has its samples
  // Before each forward, all ranks take rank 0's buffers.
  bool broadcast_buffers = true;
  // Without one: the default group.
  std::optional<ProcessGroup> process_group = std::nullopt;
  // The largest bucket. The first one has at most 1 MiB, so that communication begins early.
  double bucket_cap_mb = 25;
  // Lets a backward report fewer gradients than there are parameters. The others count as they are.
  bool find_unused_parameters = false;
  // After each backward, compares a checksum of the gradients over the ranks.
  bool check_reduction = false;
  // Whether the module is offered memory for its gradients, where they are reduced without copies.
  bool gradient_as_bucket_view = true;
  // Every backward uses the same parameters. Those that the first one leaves out need not be waited
  // for in later ones.
  bool static_graph = false;
  // The type in which gradients travel and are added; by default their own.
  std::optional<DataType> reduce_type = std::nullopt;
};

struct JoinOptions {
  // Whether the mean stays the sum over all ranks divided by the world size when some ranks have
  // no batches left. Otherwise it is divided by the number of ranks that still train.
  bool divide_by_initial_world_size = true;
  // Whether all ranks get an error once the first has no batches left.
  bool throw_on_early_termination = false;
};

// Keeps the replicas of a model equal: one on each rank of a group. At construction every replica
// gets rank 0's parameters and buffers. Each backward then leaves, on every rank, the mean over the
// ranks of their gradients, with the same bits. It is exchanged bucket by bucket while backward
// still runs:
//
//   dp::DistributedDataParallel ddp(model);
//   for (const Batch& batch : batches) {
//     ddp.zero_grad();
//     ddp.begin_forward();
//     model.forward(batch);
//     model.backward([&](size_t parameter) { ddp.gradient_ready(parameter); });
//     ddp.finish_backward();
//     optimizer.step();
//   }
//
// Backward adds to the gradients, which begin at zero. Every rank makes the same calls in the same
// order. They throw DistError; after one, the gradients must not be used. An error of an exchange
// stays: every later call of a step throws it again. The module outlives this object, and keeps its
// parameters and buffers where they are. One such object at a time wraps a module: end the first
// one before you make another. A function of the program, a hook or that of join, may throw: a
// std::exception passes, and anything else is a kProgramFailed. The memory that
// it takes for gradients is the group's, and ends with it. Calls come from one thread at a
// time.
class DistributedDataParallel {
 public:
  // Errors: kMismatch the first option, parameter or buffer in which ranks differ, alike on all
  // ranks.
  // kInvalidArgument an option or a parameter. kWrongState process_group is an empty handle, or
  // another object wraps the module, or has the gradient of one of its parameters in its memory.
  explicit DistributedDataParallel(Module& module,
                                   const DistributedDataParallelOptions& options = {});
  DistributedDataParallel(DistributedDataParallel&&) noexcept;
  // Within a backward, or while an exception passes between begin_forward and finish_backward, it
  // aborts the group: peers wait for this rank's gradients.
  ~DistributedDataParallel();

  // Before a forward that a backward follows. Training only: ranks may evaluate as they like. Where
  // every rank leaves it out, the backward is averaged, and buffers stay as they are.
  // Errors: kWrongState the last backward was not finished.
  void begin_forward();
  // The gradient of the parameter of that index is complete, and is this object's until
  // finish_backward. Once for each parameter and backward.
  void gradient_ready(size_t parameter);
  // The end of a backward: blocks until the gradients are the mean.
  // Errors: kWrongState names the parameters without a gradient and the option that allows them.
  // kMismatch check_reduction found differences.
  void finish_backward();

  // Backwards that begin while this object lives only add to this rank's gradients. The first
  // backward afterwards averages what all of them have added.
  class NoSync {
   public:
    explicit NoSync(library::ModuleReducer& reducer);
    NoSync(NoSync&& from) noexcept;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    library::ModuleReducer* reducer_;  // null once moved from
    bool before_;
  };
  [[nodiscard]] NoSync no_sync();
  // Whether backwards average: false while a NoSync lives.
  bool require_backward_grad_sync() const;

  // Runs `train`, in which ranks may have different numbers of batches. A rank whose `train` has
  // returned takes part in the others' exchanges with zeros. In the end it takes the parameters and
  // buffers of a rank that trained longest; optimizers do not follow.
  // Errors: kWrongState throw_on_early_termination names the ranks without batches.
  void join(const std::function<void()>& train, const JoinOptions& options = {});

  // Averages by `hook` instead of an all-reduce. Before the first backward, on every rank.
  // Errors: kInvalidArgument there is a hook already, or a ZeroRedundancyOptimizer, or `hook` is
  // empty.
  void register_comm_hook(CommHook hook);

  // The gradients, by index of their parameter. After a begin_forward they may have moved.
  std::vector<MutableElements> gradients();
  void zero_grad();
  // After finish_backward, as the function of that name. Over backend nccl it waits for the stream.
  // Errors: also kInvalidArgument a ZeroRedundancyOptimizer shares the gradients.
  double clip_grad_norm(double max_norm);
  // By index: whether any rank's last backward had a gradient for the parameter. PyTorch's
  // optimizers leave the others alone. All are true without find_unused_parameters or static_graph.
  const std::vector<bool>& used_parameters() const;
  // The number of buckets, which is that of all-reduces in a backward.
  size_t buckets() const;

  // For the library itself.
  library::ModuleReducer& reducer() const;

 private:
  std::unique_ptr<library::ModuleReducer> reducer_;
};

// Scales gradients of floats such that their norm, over all of them together, is at most
// `max_norm`. Returns the norm before. The same bits on ranks that have the same gradients. As with
// PyTorch's error_if_nonfinite=false, a norm of NaN makes all gradients NaN. An infinite one leaves
// zeros, and NaN for what is infinite. Look at the result to skip such a step. Errors:
// kInvalidArgument max_norm is not above 0, or an array is not of floats, or a GPU's.
double clip_grad_norm(std::span<const MutableElements> gradients, double max_norm);

}  // namespace dp::distributed
