#include "worker/trainer/inference/sample_token.h"

#include <algorithm>
#include <cmath>

namespace dp::trainer {

std::vector<double> Softmax(absl::Span<const float> logits, double temperature) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> probabilities;
  probabilities.reserve(logits.size());
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp((logit - largest) / temperature));
    sum += probabilities.back();
  }
  for (double& each : probabilities) each /= sum;
  return probabilities;
}

int DrawToken(absl::Span<const float> logits, double temperature, engine::Generator& random) {
  const auto likeliest =
      static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  if (temperature == 0) return likeliest;
  double left = random.Uniform(0, 1);
  const std::vector<double> probabilities = Softmax(logits, temperature);
  for (size_t token = 0; token < probabilities.size(); ++token) {
    left -= probabilities[token];
    if (left < 0) return static_cast<int>(token);
  }
  return likeliest;  // the sum of all is a rounding error below 1
}

}  // namespace dp::trainer
