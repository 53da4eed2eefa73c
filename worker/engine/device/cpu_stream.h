#pragma once

#include <dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "base/model/shape.h"

namespace dp::engine {

// Where oneDNN runs: on the calling thread and its OpenMP team. Owned by the device, used by all
// that the device made.
struct CpuStream {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  // oneDNN refuses at creation what it cannot do; a primitive that then does not run is a bug.
  void Run(const dnnl::primitive& primitive,
           const std::unordered_map<int, dnnl::memory>& arguments);
};

// The values between two layers and, where an earlier layer has parameters, the gradient of the
// loss with respect to them. Both have one format, that of the layer which gives the values.
struct Activation {
  dnnl::memory value;
  dnnl::memory gradient;  // empty when nobody needs it

  bool needs_gradient() const { return static_cast<bool>(gradient); }
};

// What an activation of `batch_size` samples of `shape` is in plain order: nc or nchw. Each token
// of each sample is one row: what its features go through is the same for all.
dnnl::memory::desc PlainDesc(int batch_size, const model::Shape& shape);

// Memory in `desc`; with a gradient beside the value when `needs_gradient`.
Activation MakeActivation(const CpuStream& cpu, const dnnl::memory::desc& desc,
                          bool needs_gradient);

// A tensor in the format that a primitive wants: `home` itself where the formats agree, else a copy
// beside it, with the reorders made once. Not thread-safe; used by its device's thread.
class Formatted {
 public:
  Formatted(CpuStream& cpu, dnnl::memory home, const dnnl::memory::desc& wanted);

  const dnnl::memory& memory() const { return memory_; }
  // Brings the copy up to date with home; nothing to do where they are one.
  void Fetch();
  // Brings home up to date with the copy.
  void Store();

 private:
  CpuStream& cpu_;
  dnnl::memory home_;
  dnnl::memory memory_;
  dnnl::reorder fetch_;  // empty where formats agree
  dnnl::reorder store_;
};

// An activation as a layer reads it that computes in plain order, in which an element's place does
// not depend on formats.
class PlainInput {
 public:
  PlainInput(CpuStream& cpu, const Activation& in, const dnnl::memory::desc& plain);

  // The values, brought up to date.
  const float* Fetch();
  // Null where nobody needs it; Store makes it known when it is written. FetchGradient is for who
  // changes what others have written.
  float* gradient() const;
  float* FetchGradient();
  void Store();

 private:
  Formatted value_;
  std::optional<Formatted> gradient_;
};

float* Floats(const dnnl::memory& memory);

}  // namespace dp::engine
