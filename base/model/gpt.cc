#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/model/layer_spec.h"

namespace dp::model {
namespace {

constexpr double kInitStd = 0.02;

// Each block adds two outputs to the residual, so their sum grows with the number of blocks.
// Smaller initial weights in the layers that give these outputs keep the sum's size.
double ResidualInitStd(const GptSize& size) { return kInitStd / std::sqrt(2.0 * size.blocks); }

LayerSpec Projection(std::string name, int out, double init_std) {
  return {std::move(name), Linear{.out = out, .init_std = init_std}};
}

// Appends x = x + projection(attention(norm(x))), then x = x + projection(gelu(linear(norm(x)))). x
// is the output of the last layer so far.
void AppendBlock(const GptSize& size, const std::string& name, std::vector<LayerSpec>& layers) {
  const std::string before = layers.back().name;
  const int features = size.features;
  layers.push_back({name + ".ln_1", LayerNorm{}});
  layers.push_back(Projection(name + ".attn.c_attn", 3 * features, kInitStd));
  layers.push_back({name + ".attn", CausalAttention{.heads = size.heads}});
  layers.push_back(Projection(name + ".attn.c_proj", features, ResidualInitStd(size)));
  layers.push_back({name + ".add_1", Add{.layer = before}});
  layers.push_back({name + ".ln_2", LayerNorm{}});
  layers.push_back(Projection(name + ".mlp.c_fc", 4 * features, kInitStd));
  layers.push_back({name + ".mlp.gelu", Gelu{}});
  layers.push_back(Projection(name + ".mlp.c_proj", features, ResidualInitStd(size)));
  layers.push_back({name + ".add_2", Add{.layer = name + ".add_1"}});
}

}  // namespace

std::vector<LayerSpec> Gpt(const GptSize& size) {
  std::vector<LayerSpec> layers;
  layers.push_back(
      {"wte",
       Embedding{.vocabulary = size.vocabulary, .features = size.features, .init_std = kInitStd}});
  layers.push_back({"wpe", Positions{.init_std = kInitStd}});
  for (int block = 0; block < size.blocks; ++block) {
    AppendBlock(size, absl::StrCat("h.", block), layers);
  }
  layers.push_back({"ln_f", LayerNorm{}});
  layers.push_back({"lm_head", TiedLinear{.embedding = "wte"}});
  return layers;
}

}  // namespace dp::model
