#pragma once

#include <dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/model/shape.h"

namespace dp::engine {

// Sets the size of the calling thread's OpenMP team.
void SetComputeThreads(int threads);

// Where oneDNN runs: on the calling thread and its OpenMP team. Owned by the device, used by all
// that the device made.
struct CpuStream {
  int threads = 1;  // of a team
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  // The first error of a plug-in's layer. Nothing that was computed since then counts.
  absl::Status failure;

  // oneDNN rejects at creation what it cannot do, so a primitive that fails to run is a bug.
  void Run(const dnnl::primitive& primitive,
           const std::unordered_map<int, dnnl::memory>& arguments);
};

// The values between two layers and, if an earlier layer has parameters, the gradient of the loss
// with respect to the values. Both have the format of the layer that writes the values.
struct Activation {
  dnnl::memory value;
  dnnl::memory gradient;  // empty if no layer needs it
  // Whether no value of the latest Forward is NaN; null if the layer that writes them does not
  // know.
  const bool* without_nan = nullptr;

  bool needs_gradient() const { return static_cast<bool>(gradient); }
};

// The description of `batch_size` samples of `shape` in plain order: nc, nchw and so on. Each token
// of each sample is one row, since layers treat the features of all tokens alike.
dnnl::memory::desc PlainDesc(int batch_size, const model::Shape& shape);

// Memory in `desc` for the value and, if `needs_gradient`, for the gradient.
Activation MakeActivation(const CpuStream& cpu, const dnnl::memory::desc& desc,
                          bool needs_gradient);

// A tensor in the format that a primitive wants: `home` itself if the formats agree, else a copy
// beside it. The reorders are made once. Not thread-safe; used by its device's thread.
class Formatted {
 public:
  Formatted(CpuStream& cpu, dnnl::memory home, const dnnl::memory::desc& wanted);

  const dnnl::memory& memory() const { return memory_; }
  // Updates the copy from home; a no-op if there is no copy.
  void Fetch();
  // Updates home from the copy.
  void Store();

 private:
  CpuStream& cpu_;
  dnnl::memory home_;
  dnnl::memory memory_;
  dnnl::reorder fetch_;  // empty if the formats agree
  dnnl::reorder store_;
};

// The input of a layer that computes in one format: mostly in plain order, where an element's place
// does not depend on formats.
class FormattedInput {
 public:
  FormattedInput(CpuStream& cpu, const Activation& in, const dnnl::memory::desc& wanted);

  // Updates the values and returns them.
  const float* Fetch();
  const dnnl::memory& memory() const { return value_.memory(); }
  dnnl::memory gradient_memory() const { return gradient_ ? gradient_->memory() : dnnl::memory(); }
  // Null if no layer needs the gradient. Call Store after writing it. FetchGradient is for a layer
  // that adds to what others have written.
  float* gradient() const;
  float* FetchGradient();
  void Store();

 private:
  Formatted value_;
  std::optional<Formatted> gradient_;
};

float* Floats(const dnnl::memory& memory);
// The same with the size; formats that pad have more elements than the tensor.
absl::Span<float> Values(const dnnl::memory& memory);

}  // namespace dp::engine
