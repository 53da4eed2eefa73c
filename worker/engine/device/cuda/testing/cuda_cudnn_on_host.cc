#include "worker/engine/device/cuda/testing/cuda_cudnn_on_host.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/engine/device/cuda/testing/cuda_cudnn_notes_on_host.h"

namespace dp::engine::cuda::on_host {
namespace {

using Index = std::array<int64_t, 4>;

// Calls `each` with every index below the sizes.
void ForEach(const Index& sizes, const std::function<void(const Index&)>& each) {
  Index at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) each(at);
}

// A tensor and its memory, which is its own or the caller's.
struct Values {
  Index sizes, strides;
  bool bf16 = false;  // in the caller's memory
  std::vector<float> own;
  void* data = nullptr;

  int64_t Offset(const Index& at) const {
    int64_t offset = 0;
    // An axis of size 1 is broadcast.
    for (int axis = 0; axis < 4; ++axis) {
      if (sizes[axis] > 1) offset += at[axis] * strides[axis];
    }
    return offset;
  }
  float GetAt(int64_t offset) const {
    return bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[offset])
                : static_cast<const float*>(data)[offset];
  }
  void SetAt(int64_t offset, float value) {
    if (bf16) {
      static_cast<__nv_bfloat16*>(data)[offset] = __float2bfloat16_rn(value);
    } else {
      static_cast<float*>(data)[offset] = value;
    }
  }
  float Get(const Index& at) const { return GetAt(Offset(at)); }
  void Set(const Index& at, float value) { SetAt(Offset(at), value); }
  int64_t extent() const {
    return Offset({sizes[0] - 1, sizes[1] - 1, sizes[2] - 1, sizes[3] - 1}) + 1;
  }
};

float Applied(cudnnPointwiseMode_t mode, float x, float b, float t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_IDENTITY:
      return x;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_RELU_FWD:
      return std::max(x, 0.0f);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      DP_CHECK(false);
      return 0;
  }
}

class Computing {
 public:
  Computing(std::map<int64_t, void*> given, bool of_own_types)
      : given_(std::move(given)), of_own_types_(of_own_types) {}

  void RunAll(const Note& graph) {
    for (void* operation : graph.All<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      Run(*static_cast<const Note*>(operation));
    }
  }

 private:
  void Run(const Note& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return Pointwise(operation);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return Matmul(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return Reduce(operation);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return Reshape(operation);
      default:
        return Convolve(operation);
    }
  }

  Values& Of(const Note& tensor) {
    const auto number = tensor.One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto [found, is_new] = values_.try_emplace(number);
    Values& values = found->second;
    if (!is_new) return values;
    const auto sizes = tensor.All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto strides = tensor.All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    std::copy(sizes.begin(), sizes.end(), values.sizes.begin());
    std::copy(strides.begin(), strides.end(), values.strides.begin());
    const auto given = given_.find(number);
    const bool is_given = given != given_.end();
    DP_CHECK(is_given != (tensor.One<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0));
    values.own.resize(is_given ? 0 : values.extent());
    values.data = is_given ? given->second : values.own.data();
    values.bf16 = is_given && of_own_types_ &&
                  tensor.One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16;
    return values;
  }

  void Pointwise(const Note& o) {
    const Note& how = o.At(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = how.One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    Values& x = Of(o.At(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    Values& y = Of(o.At(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
      const auto axis = how.One<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
      return ForEach(y.sizes, [&](const Index& at) { y.Set(at, static_cast<float>(at[axis])); });
    }
    const auto operand = [&](cudnnBackendAttributeName_t name) {
      return o.Has(name) ? &Of(o.At(name)) : nullptr;
    };
    Values* const b = operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    Values* const t = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    ForEach(y.sizes, [&](const Index& at) {
      y.Set(at,
            Applied(mode, x.Get(at), b == nullptr ? 0 : b->Get(at), t == nullptr ? 0 : t->Get(at)));
    });
  }

  void Matmul(const Note& o) {
    Values& a = Of(o.At(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    Values& b = Of(o.At(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    Values& c = Of(o.At(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    DP_CHECK(a.sizes[3] == b.sizes[2] && a.sizes[2] == c.sizes[2] && b.sizes[3] == c.sizes[3]);
    ForEach(c.sizes, [&](const Index& at) {
      double sum = 0;
      for (int64_t k = 0; k < a.sizes[3]; ++k) {
        sum += double{a.Get({at[0], at[1], at[2], k})} * b.Get({at[0], at[1], k, at[3]});
      }
      c.Set(at, static_cast<float>(sum));
    });
  }

  void Reduce(const Note& o) {
    const bool largest =
        o.At(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
            .One<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    Values& x = Of(o.At(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    Values& y = Of(o.At(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    const float first = largest ? -std::numeric_limits<float>::infinity() : 0;
    ForEach(y.sizes, [&](const Index& at) { y.Set(at, first); });
    ForEach(x.sizes, [&](const Index& at) {
      y.Set(at, largest ? std::max(y.Get(at), x.Get(at)) : y.Get(at) + x.Get(at));
    });
  }

  // Copies the memory; only the layout changes.
  void Reshape(const Note& o) {
    Values& x = Of(o.At(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    Values& y = Of(o.At(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    DP_CHECK(x.extent() == y.extent());
    for (int64_t i = 0; i < x.extent(); ++i) y.SetAt(i, x.GetAt(i));
  }

  struct Pass {
    cudnnBackendAttributeName_t window, in, weight, out;
  };
  static Pass PassOf(cudnnBackendDescriptorType_t type) {
    switch (type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
      default:
        DP_CHECK(type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    }
  }

  // Adds up products of two of the three tensors, one for each place of the window; the third
  // tensor takes the sums.
  void Convolve(const Note& o) {
    const Pass pass = PassOf(o.type);
    const Note& window = o.At(pass.window);
    const auto stride = window.All<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto padding = window.All<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const auto dilation = window.All<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    Values& in = Of(o.At(pass.in));
    Values& weight = Of(o.At(pass.weight));
    Values& out = Of(o.At(pass.out));
    const bool forward = o.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool to_data = o.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    Values& result = forward ? out : to_data ? in : weight;
    // A group of outputs sees as many inputs as a weight has.
    const int64_t outs_of_group = out.sizes[1] / (in.sizes[1] / weight.sizes[1]);
    std::vector<double> sums(result.extent());
    ForEach(out.sizes, [&](const Index& y) {
      const int64_t first = y[1] / outs_of_group * weight.sizes[1];
      ForEach({1, weight.sizes[1], weight.sizes[2], weight.sizes[3]}, [&](const Index& place) {
        const Index x = {y[0], first + place[1],
                         y[2] * stride[0] - padding[0] + place[2] * dilation[0],
                         y[3] * stride[1] - padding[1] + place[3] * dilation[1]};
        const Index w = {y[1], place[1], place[2], place[3]};
        if (x[2] < 0 || x[2] >= in.sizes[2] || x[3] < 0 || x[3] >= in.sizes[3]) return;
        const Index& to = forward ? y : to_data ? x : w;
        const double left = forward || !to_data ? in.Get(x) : out.Get(y);
        const double right = forward || to_data ? weight.Get(w) : out.Get(y);
        sums[result.Offset(to)] += left * right;
      });
    });
    ForEach(result.sizes,
            [&](const Index& at) { result.Set(at, static_cast<float>(sums[result.Offset(at)])); });
  }

  const std::map<int64_t, void*> given_;
  const bool of_own_types_;
  std::map<int64_t, Values> values_;
};

}  // namespace

void ComputeNotes(const Note& graph, std::map<int64_t, void*> given, bool of_own_types) {
  Computing(std::move(given), of_own_types).RunAll(graph);
}

void Compute(const CudnnGraph& graph, absl::Span<float* const> stored) {
  DP_CHECK(graph.stored().size() == stored.size());
  std::map<int64_t, void*> given;
  std::vector<CudnnGraph::ScalarValue> scalars = graph.scalars();
  for (CudnnGraph::ScalarValue& each : scalars) given[each.tensor] = &each.value;
  for (size_t i = 0; i < stored.size(); ++i) given[graph.stored()[i]] = stored[i];
  ComputeNotes(*static_cast<const Note*>(graph.operations().get()), std::move(given),
               /*of_own_types=*/false);
}

}  // namespace dp::engine::cuda::on_host
