#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/overloaded.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"

namespace dp::engine::cuda {
namespace {

// Words that are not empty, with a space between.
std::string Words(std::initializer_list<std::string> words) {
  std::vector<std::string> said;
  for (const std::string& word : words) {
    if (!word.empty()) said.push_back(word);
  }
  return absl::StrJoin(said, " ");
}

std::string NameOf(const Loss& loss) {
  return std::visit(Overloaded{[](const CrossEntropyLoss& kind) -> std::string {
                                 return kind.label_smoothing > 0 ? "smoothed cross entropy"
                                                                 : "cross entropy";
                               },
                               [](const MseLoss&) -> std::string { return "mse"; },
                               [](const L1Loss&) -> std::string { return "l1"; },
                               [](const BceLoss&) -> std::string { return "bce"; },
                               [](const NormLoss&) -> std::string { return "norm of the output"; }},
                    loss);
}

std::string If(bool is, absl::string_view word) { return is ? std::string(word) : ""; }

std::string Text(Function function) {
  switch (function) {
    case Function::kRelu:
      return model::Relu::kName;
    case Function::kGelu:
      return model::Gelu::kName;
    case Function::kExactGelu:
      return absl::StrCat("exact ", model::Gelu::kName);
    case Function::kSilu:
      return model::Silu::kName;
    case Function::kTanh:
      return model::Tanh::kName;
    case Function::kSigmoid:
      return model::Sigmoid::kName;
    case Function::kNone:
      break;
  }
  return "";
}

}  // namespace

std::string Describe(const OperationKind& kind) {
  return std::visit(
      Overloaded{
          [](const op::TakeImages&) { return std::string("take images"); },
          [](const op::Embed& o) {
            return Words({"embed", If(o.positions != kNone, "positions")});
          },
          [](const op::AddPositions&) { return std::string("add positions"); },
          [](const op::Norm& o) {
            return Words({If(o.added != kNone, "add"), If(o.bias == kNone, "rms"), "norm"});
          },
          [](const op::Linear& o) {
            return Words({"linear", If(o.bias != kNone, "bias"), Text(o.function)});
          },
          [](const op::OrderWeight&) { return std::string("order weight"); },
          [](const op::Convolve& o) {
            return Words({"convolve", If(o.bias != kNone, "bias"), If(o.relu, "relu")});
          },
          [](const op::Pool& o) {
            return Words({"pool", If(o.plain, "plain")});
          },
          [](const op::MeanPool&) { return std::string("mean pool"); },
          [](const op::BatchNorm& o) {
            return Words({"batch norm", If(o.relu, "relu")});
          },
          [](const op::Apply& o) { return Text(o.function); },
          [](const op::Sum&) { return std::string("sum"); },
          [](const op::Drop&) { return std::string("drop"); },
          [](const op::Transpose&) { return std::string("transpose"); },
          [](const op::Softmax&) { return std::string("softmax"); },
          [](const op::Rotate& o) {
            return Words({"rotate", If(o.backwards, "gradient")});
          },
          [](const op::Attend& o) {
            return Words({If(o.size.fused, "fused"), "attend", If(!o.size.causal, "all")});
          },
          [](const op::Convert& o) {
            return std::string(o.to_float ? "convert to float" : "convert to bf16");
          },
          [](const op::TakeLoss& o) {
            return Words({NameOf(o.loss), If(o.gradient == o.logits, "in place")});
          },
          [](const op::ApplyGradient& o) {
            return Words({Text(o.function), "gradient"});
          },
          [](const op::BiasGradient& o) {
            return Words(
                {If(o.places > 1, "plain"), If(o.relu_out != kNone, "relu"), "bias gradient"});
          },
          [](const op::LinearWeightGradient& o) {
            return Words({"linear weight", If(o.bias != kNone, "bias"), "gradient",
                          If(o.padded != kNone, "padded")});
          },
          [](const op::LinearInputGradient& o) {
            return Words({"linear input", If(o.gelu != kNone, "gelu"), "gradient"});
          },
          [](const op::ConvolutionWeightGradient&) {
            return std::string("convolution weight gradient");
          },
          [](const op::ConvolutionInputGradient&) {
            return std::string("convolution input gradient");
          },
          [](const op::PoolGradient& o) {
            return Words(
                {"pool", If(o.plain, "plain"), If(o.relu_out != kNone, "relu"), "gradient"});
          },
          [](const op::MeanPoolGradient&) { return std::string("mean pool gradient"); },
          [](const op::BatchNormGradient& o) {
            return Words({"batch norm", If(o.relu_out != kNone, "relu"), "gradient"});
          },
          [](const op::PassStatistics&) { return std::string("pass statistics"); },
          [](const op::NormGradient& o) {
            return Words({If(o.bias == kNone, "rms"), "norm", If(o.shortcut != kNone, "shortcut"),
                          "gradient"});
          },
          [](const op::SoftmaxGradient&) { return std::string("softmax gradient"); },
          [](const op::AttendGradient& o) {
            return Words(
                {If(o.size.fused, "fused"), "attend", If(!o.size.causal, "all"), "gradient"});
          },
          [](const op::PositionsGradient&) { return std::string("positions gradient"); },
          [](const op::ZeroGradient&) { return std::string("zero gradient"); },
          [](const op::EmbeddingGradient&) { return std::string("embedding gradient"); },
      },
      kind);
}

std::string Describe(const LayerProgram& program) {
  std::string lines;
  for (const Operation& operation : program.operations) {
    absl::StrAppend(&lines, Describe(operation.kind));
    for (const int parameter : operation.completes) {
      absl::StrAppend(&lines, " ", program.layout.parameters[parameter].name);
    }
    absl::StrAppend(&lines, "\n");
  }
  return lines;
}

}  // namespace dp::engine::cuda
