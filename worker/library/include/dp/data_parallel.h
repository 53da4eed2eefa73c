#pragma once

#include <any>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dp/errors.h"
#include "dp/module.h"
#include "dp/namespace.h"
#include "dp/tensor.h"

// One model on several devices of one process: docs/library.md, DataParallel.

namespace dp::library {
class Replicas;
}

namespace dp::distributed {

// An argument of forward: a tensor, of which each device gets a part, or anything else, which every
// device gets as it is. A tensor that every device needs whole is given as std::any(tensor).
using Argument = std::variant<Tensor, std::any>;
using Arguments = std::vector<Argument>;

// A model that can run on several devices at once. Each parameter has memory for its gradient. On
// GPUs, DataParallel calls each replica on a thread on which its GPU is chosen (cudaSetDevice). The
// replica gives its work to that GPU's default stream, or to streams of its own. DataParallel waits
// for all work of the GPU before another device or the host sees a result.
class ReplicableModule : public Module {
 public:
  // A copy with memory of its own: the same parameters, buffers and state. Called by several
  // threads at once, while nobody changes the module.
  virtual std::unique_ptr<ReplicableModule> replicate() const = 0;
  // On CPUs, tensors among the inputs are the host's. On GPUs they lie on the replica's GPU, and
  // the output may lie anywhere.
  virtual Tensor forward(const Arguments& inputs) = 0;
  // Adds to the gradients of the parameters. `output_gradient` is the gradient of the loss by the
  // output of the last forward, and has its shape.
  virtual void backward(const Tensor& output_gradient) = 0;

  // replicate() for a GPU: a copy whose parameters and gradients lie on `device`, as "cuda:1". The
  // module itself lies on another GPU, whose work is done. Tensor::to and cudaMemcpyDefault copy
  // between GPUs. A module that runs on several GPUs overrides this.
  virtual std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const {
    if (device.rfind("cpu", 0) == 0) return replicate();
    throw DistError(ErrorKind::kUnsupported, "the module has no replicate_on(\"" + device +
                                                 "\"); override replicate_on, which copies the "
                                                 "module to another GPU");
  }
};

struct DataParallelOptions {
  // "cpu:0", "cpu:1", ... or "cuda:0", "cuda:1", ...: a thread each. The module's parameters lie on
  // the first. "cuda" is the calling thread's GPU. None: every GPU, if the parameters lie on one;
  // else the module runs as it is, by the caller.
  std::vector<std::string> device_ids = {};
  // Where the outputs are gathered; by default the first of device_ids. With GPUs also another one,
  // or "cpu". CPU devices share their memory, so that it changes nothing for them.
  std::string output_device = {};
  // The dimension of inputs and outputs that counts the samples.
  int dim = 0;
};

// Runs a module on several devices. Each forward copies the module to every device but the first,
// and splits the batch. Each backward adds the sum of all devices' gradients to those of the
// module. The sum has one order, so it gives the same bits in every run:
//
//   dp::DataParallel parallel(model, {.device_ids = {"cpu:0", "cpu:1"}});
//   dp::Tensor output = parallel.forward({batch});
//   parallel.backward(GradientOfLoss(output, labels));
//   optimizer.step();  // one, for the module
//
// The module itself is the replica of the first device: changes to its buffers stay, and those of
// other replicas are lost. The module outlives this object. Calls come from one thread at a time,
// and throw kWrongState once the object was moved from. On GPUs they return when the GPUs have done
// their work.
class DataParallel {
 public:
  // Errors: kInvalidArgument names the option, the GPU that is not there, or the parameter that
  // does not lie on the first device. kUnsupported an accelerator that is no GPU of CUDA; no GPU is
  // there, or CUDA's runtime or the library's kernels are missing.
  explicit DataParallel(ReplicableModule& module, const DataParallelOptions& options = {});
  DataParallel(DataParallel&&) noexcept;
  ~DataParallel();

  // The outputs of all devices, joined along `dim` on the output device. Scalars become a vector
  // with one for each device. Tensors among the inputs may lie in any memory. Errors:
  // kInvalidArgument the inputs cannot be split, the outputs cannot be joined, replicate() made no
  // copy, or replicate_on() none on its device. kLimit a memory has no room. An exception of a
  // replica becomes a DistError that names the device, and is nested in it
  // (std::rethrow_if_nested). Its kind is kProgramFailed, or that of a DistError.
  Tensor forward(const Arguments& inputs);
  // For the last forward, once. Errors: kWrongState there was none. kInvalidArgument the gradient
  // has not the output's shape. An exception of a replica, as above; the gradients are then
  // unspecified.
  void backward(const Tensor& output_gradient);

  ReplicableModule& module() const;
  // With the numbers of all GPUs. Empty: the module runs as it is.
  const std::vector<std::string>& device_ids() const;
  const std::string& output_device() const;

 private:
  std::unique_ptr<library::Replicas> replicas_;
};

// The steps of DataParallel by themselves. Errors: as there.

// The arguments of each device, in its memory: parts of ceil(n / devices) samples, of which the
// last may be shorter. It has fewer entries than there are devices if the parts do not suffice.
std::vector<Arguments> scatter(const Arguments& inputs, std::span<const std::string> devices,
                               int dim = 0);
// Copies of the module, one for each device, by replicate_on for GPUs. The module lies on the
// first.
std::vector<std::unique_ptr<ReplicableModule>> replicate(const ReplicableModule& module,
                                                         std::span<const std::string> devices);
// The outputs of module i with input i, on device i. All run at once.
std::vector<Tensor> parallel_apply(std::span<ReplicableModule* const> modules,
                                   std::span<const Arguments> inputs,
                                   std::span<const std::string> devices);
// Joins the outputs along `dim` on `device`.
Tensor gather(std::span<const Tensor> outputs, const std::string& device, int dim = 0);

}  // namespace dp::distributed
