#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/model/layer_spec.h"

namespace dp::model {
namespace {

constexpr int kStemChannels = 64;
constexpr int kBottleneckExpansion = 4;

class ResNetLayers {
 public:
  explicit ResNetLayers(const ResNetSize& size) : size_(size) {}

  std::vector<LayerSpec> Make() && {
    AddStem();
    int channels = kStemChannels;
    for (size_t stage = 0; stage < size_.blocks.size(); ++stage, channels *= 2) {
      for (int block = 0; block < size_.blocks[stage]; ++block) {
        const int stride = stage > 0 && block == 0 ? 2 : 1;
        AddBlock(absl::StrCat("layer", stage + 1, ".", block), channels, stride);
      }
    }
    Append("avgpool", AdaptiveAvgPool2d{});
    Append("flatten", Flatten{});
    Append("fc", Linear{});
    return std::move(layers_);
  }

 private:
  void AddStem() {
    const int kernel = size_.small_images ? 3 : 7;
    AddConvolution("conv1", kStemChannels, kernel, size_.small_images ? 1 : 2);
    Append("bn1", BatchNorm{});
    Append("relu", Relu{});
    if (!size_.small_images) Append("maxpool", MaxPool2d{.kernel = 3, .stride = 2, .padding = 1});
    channels_ = kStemChannels;
  }

  // x = relu(branch(x) + shortcut(x)). The shortcut is a convolution where the shape changes.
  void AddBlock(const std::string& name, int channels, int stride) {
    const std::string input = layers_.back().name;
    const int out = size_.bottleneck ? channels * kBottleneckExpansion : channels;
    const std::string branch =
        size_.bottleneck ? AddBottleneck(name, channels, stride) : AddBasic(name, channels, stride);
    std::string shortcut = input;
    if (stride != 1 || out != channels_) {
      shortcut = branch;
      AddConvolution(name + ".downsample.0", out, 1, stride);
      layers_.back().input = input;
      Append(name + ".downsample.1", BatchNorm{});
    }
    Append(name + ".add", Add{.layer = shortcut});
    Append(name + ".out", Relu{});
    channels_ = out;
  }

  // Each returns the name of the branch's last layer.
  std::string AddBasic(const std::string& name, int channels, int stride) {
    AddNormalized(name, 1, channels, 3, stride);
    Append(name + ".relu1", Relu{});
    return AddNormalized(name, 2, channels, 3, 1);
  }
  std::string AddBottleneck(const std::string& name, int channels, int stride) {
    AddNormalized(name, 1, channels, 1, 1);
    Append(name + ".relu1", Relu{});
    AddNormalized(name, 2, channels, 3, stride);
    Append(name + ".relu2", Relu{});
    return AddNormalized(name, 3, channels * kBottleneckExpansion, 1, 1);
  }

  std::string AddNormalized(const std::string& name, int number, int out, int kernel, int stride) {
    AddConvolution(absl::StrCat(name, ".conv", number), out, kernel, stride);
    Append(absl::StrCat(name, ".bn", number), BatchNorm{});
    return layers_.back().name;
  }

  void AddConvolution(const std::string& name, int out, int kernel, int stride) {
    Append(name, Conv2d{.out = out,
                        .kernel = kernel,
                        .stride = stride,
                        .padding = kernel / 2,
                        .bias = false,
                        .init_std = std::sqrt(2.0 / (kernel * kernel * out))});
  }

  void Append(std::string name, LayerKind kind) {
    layers_.push_back({std::move(name), std::move(kind)});
  }

  const ResNetSize& size_;
  int channels_ = 0;  // of the last block
  std::vector<LayerSpec> layers_;
};

}  // namespace

std::vector<LayerSpec> ResNet(const ResNetSize& size) { return ResNetLayers(size).Make(); }

}  // namespace dp::model
