#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

// Adds cuDNN's own reason to the message for the code.
absl::Status CudnnRefusedStatus(cudnnStatus_t result, const Call& call) {
  std::array<char, 512> reason = {};
  cudnnGetLastErrorString(reason.data(), reason.size());
  const absl::Status status = RefusedStatus(result, call);
  if (reason[0] == '\0') return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), ": ", reason.data()));
}

void Note(absl::Status* first, const absl::Status& status) {
  if (first->ok()) *first = status;
}

// Comparisons give truth values, and indices are whole numbers.
cudnnDataType_t PrecisionOf(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_CMP_GE:
      return CUDNN_DATA_BOOLEAN;
    case CUDNN_POINTWISE_GEN_INDEX:
      return CUDNN_DATA_INT32;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

}  // namespace

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  const cudnnStatus_t result = cudnnBackendCreateDescriptor(type, &descriptor_);
  if (result == CUDNN_STATUS_SUCCESS) return;
  descriptor_ = nullptr;
  const std::string text = absl::StrCat("cudnnBackendCreateDescriptor(", type, ")");
  status_ = CudnnRefusedStatus(result, {__FILE__, __LINE__, text});
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

void CudnnDescriptor::SetAll(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             int64_t count, const void* values) {
  if (!status_.ok()) return;
  const cudnnStatus_t result = cudnnBackendSetAttribute(descriptor_, name, type, count, values);
  if (result == CUDNN_STATUS_SUCCESS) return;
  const std::string text = absl::StrCat("cudnnBackendSetAttribute(", name, ")");
  status_ = CudnnRefusedStatus(result, {__FILE__, __LINE__, text});
}

absl::Status CudnnDescriptor::Finalize() {
  if (!status_.ok()) return status_;
  const cudnnStatus_t result = cudnnBackendFinalize(descriptor_);
  if (result == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  status_ = CudnnRefusedStatus(result, {__FILE__, __LINE__, "cudnnBackendFinalize()"});
  return status_;
}

TensorLayout Dense(const std::array<int64_t, 4>& sizes) {
  TensorLayout layout{.sizes = sizes};
  int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    layout.strides[axis] = stride;
    stride *= sizes[axis];
  }
  return layout;
}

cudnnDataType_t CudnnType(ElementType type) {
  return type == ElementType::kFloat32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
}

CudnnGraph::Tensor CudnnGraph::Make(const TensorLayout& layout, cudnnDataType_t type, Home home) {
  const Tensor number = static_cast<Tensor>(tensors_.size());
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
             absl::Span<const int64_t>(layout.sizes));
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
             absl::Span<const int64_t>(layout.strides));
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, home == Home::kNowhere);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, home == Home::kHost);
  Note(&status_, tensor.Finalize());
  tensors_.push_back(std::move(tensor));
  return number;
}

CudnnGraph::Tensor CudnnGraph::Stored(const TensorLayout& layout, cudnnDataType_t type) {
  stored_.push_back(Make(layout, type, Home::kMemory));
  return stored_.back();
}

CudnnGraph::Tensor CudnnGraph::StoredSums(const TensorLayout& layout) {
  adds_atomically_ = true;
  return Stored(layout, CUDNN_DATA_FLOAT);
}

CudnnGraph::Tensor CudnnGraph::Virtual(const TensorLayout& layout, cudnnDataType_t type) {
  return Make(layout, type, Home::kNowhere);
}

CudnnGraph::Tensor CudnnGraph::Scalar(float value) {
  const Tensor scalar = Make(Dense({1, 1, 1, 1}), CUDNN_DATA_FLOAT, Home::kHost);
  scalars_.push_back({scalar, value});
  return scalar;
}

const CudnnDescriptor& CudnnGraph::Keep(CudnnDescriptor descriptor) {
  Note(&status_, descriptor.Finalize());
  kept_.push_back(std::move(descriptor));
  return kept_.back();
}

void CudnnGraph::AddOperation(CudnnDescriptor operation) {
  Note(&status_, operation.Finalize());
  operations_.push_back(std::move(operation));
}

void CudnnGraph::Matmul(Tensor a, Tensor b, Tensor to) {
  CudnnDescriptor precision(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  precision.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, Keep(std::move(precision)));
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(to));
  AddOperation(std::move(operation));
}

CudnnDescriptor CudnnGraph::MakePointwise(cudnnPointwiseMode_t mode) {
  CudnnDescriptor pointwise(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  pointwise.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, PrecisionOf(mode));
  return pointwise;
}

CudnnDescriptor CudnnGraph::BeginPointwise(const CudnnDescriptor& mode, Tensor x, Tensor to) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(to));
  return operation;
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor to) {
  AddOperation(BeginPointwise(Keep(MakePointwise(mode)), x, to));
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor to) {
  CudnnDescriptor operation = BeginPointwise(Keep(MakePointwise(mode)), x, to);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  AddOperation(std::move(operation));
}

void CudnnGraph::Select(Tensor condition, Tensor x, Tensor b, Tensor to) {
  CudnnDescriptor operation =
      BeginPointwise(Keep(MakePointwise(CUDNN_POINTWISE_BINARY_SELECT)), x, to);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(condition));
  AddOperation(std::move(operation));
}

void CudnnGraph::Index(int64_t axis, Tensor x, Tensor to) {
  CudnnDescriptor index = MakePointwise(CUDNN_POINTWISE_GEN_INDEX);
  index.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  AddOperation(BeginPointwise(Keep(std::move(index)), x, to));
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor to) {
  CudnnDescriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  reduction.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, Keep(std::move(reduction)));
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(to));
  AddOperation(std::move(operation));
}

void CudnnGraph::Reshape(Tensor x, Tensor to) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(to));
  AddOperation(std::move(operation));
}

CudnnDescriptor CudnnGraph::MakeWindow(const Window& window) {
  const auto pair = [](const Window::Pair& values) { return absl::Span<const int64_t>(values); };
  CudnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
  made.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  made.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  made.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, pair(window.strides));
  made.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pair(window.padding));
  made.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pair(window.padding));
  made.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, pair(window.dilations));
  return made;
}

void CudnnGraph::ConvolveForward(const Window& window, Tensor in, Tensor weight, Tensor out) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, Keep(MakeWindow(window)));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(in));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(weight));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(out));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
  AddOperation(std::move(operation));
}

void CudnnGraph::ConvolveBackwardData(const Window& window, Tensor out_gradient, Tensor weight,
                                      Tensor in_gradient) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, Keep(MakeWindow(window)));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, at(out_gradient));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, at(weight));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, at(in_gradient));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 0.0f);
  AddOperation(std::move(operation));
}

void CudnnGraph::ConvolveBackwardFilter(const Window& window, Tensor in, Tensor out_gradient,
                                        Tensor weight_gradient) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, Keep(MakeWindow(window)));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, at(in));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, at(out_gradient));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, at(weight_gradient));
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
  operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 0.0f);
  AddOperation(std::move(operation));
}

absl::Status CudnnGraph::Finish(const CudnnTarget& target) {
  if (!status_.ok()) return status_;
  DP_CHECK(finished_.get() == nullptr);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& each : operations_) operations.push_back(each.get());
  finished_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  finished_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                absl::Span<const cudnnBackendDescriptor_t>(operations));
  if (target.handle != nullptr) {
    finished_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  }
  return finished_.Finalize();
}

}  // namespace dp::engine::cuda
