#include "worker/engine/device/testing/conformance_cases.h"

namespace dp::engine {
namespace {

const model::Shape kImage = {2, 10, 10};

model::LayerSpec ThreeOutputs() { return {"", model::Linear{.out = 3}}; }

// Between a convolution, which gets a gradient through it, and the head.
LayerCase OfImages(const std::string& name, const model::LayerKind& kind) {
  return {name,
          {{"", model::Conv2d{.out = 4, .kernel = 3, .bias = false}},
           {"", kind},
           {"", model::Flatten{}},
           ThreeOutputs()},
          kImage};
}

LayerCase OfRows(const std::string& name, const model::LayerKind& kind) {
  return {name,
          {{"", model::Linear{.out = 12}}, {"", kind}, {"", model::Flatten{}}, ThreeOutputs()},
          {5, 3}};
}

}  // namespace

std::vector<LayerCase> LayerCases() {
  return {
      OfImages("`conv2d`, `flatten`", model::Conv2d{.out = 5, .kernel = 3, .stride = 2}),
      OfImages("`conv2d` with `groups`", model::Conv2d{.out = 8, .kernel = 3, .groups = 4}),
      OfImages("`conv2d` with `dilation`", model::Conv2d{.out = 2, .kernel = 3, .dilation = 2}),
      OfImages("`maxPool2d`", model::MaxPool2d{.kernel = 2}),
      OfImages("`maxPool2d` with `padding`",
               model::MaxPool2d{.kernel = 3, .stride = 2, .padding = 1}),
      OfImages("`avgPool2d`", model::AvgPool2d{.kernel = 3, .stride = 2, .padding = 1}),
      OfImages("`adaptiveAvgPool2d`", model::AdaptiveAvgPool2d{.rows = 2, .columns = 4}),
      OfImages("`adaptiveAvgPool2d`, uneven windows",
               model::AdaptiveAvgPool2d{.rows = 3, .columns = 5}),
      OfImages("`batchNorm` of images", model::BatchNorm{}),
      OfImages("`relu`", model::Relu{}),
      OfImages("`dropout`", model::Dropout{0.3}),
      OfRows("`linear`", model::Linear{.out = 5, .bias = false}),
      OfRows("`layerNorm`", model::LayerNorm{}),
      OfRows("`gelu`", model::Gelu{}),
      OfImages("`gelu` with `approximate: none`", model::Gelu{.exact = true}),
      OfImages("`silu`", model::Silu{}),
      OfImages("`tanh`", model::Tanh{}),
      OfImages("`sigmoid`", model::Sigmoid{}),
      OfRows("`conv1d`", model::Conv1d{.out = 4, .kernel = 3, .padding = 1}),
      OfRows("`batchNorm` of sequences", model::BatchNorm{}),
      OfRows("`softmax`", model::Softmax{}),
      OfRows("`rmsNorm`", model::RmsNorm{}),
      OfRows("`causalAttention`", model::CausalAttention{.heads = 2}),
      OfRows("`attention`", model::Attention{.heads = 2}),
      OfRows("`attention` with `causal` and `rotary`",
             model::Attention{2, /*causal=*/true, /*rotary=*/true}),
      {"`batchNorm` with `relu` behind it",
       {{"", model::Conv2d{.out = 4, .kernel = 3, .bias = false}},
        {"", model::BatchNorm{}},
        {"", model::Relu{}},
        {"", model::Flatten{}},
        ThreeOutputs()},
       kImage},
      {"`batchNorm` of four axes",
       {{"", model::Tanh{}},
        {"", model::BatchNorm{}},
        {"", model::Dropout{0.2}},
        {"", model::Flatten{}},
        ThreeOutputs()},
       {2, 3, 2, 2}},
      {"`batchNorm` of features",
       {{"", model::Linear{.out = 8, .bias = false}}, {"", model::BatchNorm{}}, ThreeOutputs()},
       {7}},
      {"`input`, `add`",
       {{"stem", model::Conv2d{.out = 3, .kernel = 3, .padding = 1}},
        {"left", model::Relu{}},
        {"", model::Conv2d{.out = 3, .kernel = 1}, "stem"},
        {"sum", model::Add{"left"}},
        {"", model::Relu{}},
        {"", model::Add{"sum"}},
        {"", model::Add{"stem"}},
        {"", model::Flatten{}},
        ThreeOutputs()},
       kImage},
      {"`embedding`, `positions`, `tiedLinear`",
       {{"wte", model::Embedding{.features = 6}},
        {"", model::Positions{}},
        {"", model::TiedLinear{"wte"}}},
       {},
       /*of_tokens=*/true},
  };
}

std::vector<LossCase> LossCases() {
  return {{"`crossEntropy`", CrossEntropyLoss()},
          {"`crossEntropy` with `labelSmoothing`", CrossEntropyLoss{0.1}},
          {"`mse`", MseLoss()},
          {"`l1`", L1Loss()},
          {"`bce`", BceLoss()},
          {"`norm`", NormLoss()}};
}

}  // namespace dp::engine
