#pragma once

#include <vector>

#include "absl/types/span.h"
#include "worker/engine/nn/generator.h"

namespace dp::trainer {

// The probabilities of classes with these logits, exp(z) / sum of exp(z), in float64. Pure.
std::vector<double> Softmax(absl::Span<const float> logits, double temperature = 1);

// Draws a token with the probabilities softmax(logits / temperature). With a temperature of 0,
// takes the first of the likeliest. Equal seeds draw equal tokens.
int DrawToken(absl::Span<const float> logits, double temperature, engine::Generator& random);

}  // namespace dp::trainer
