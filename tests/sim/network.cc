#include "tests/sim/network.h"

namespace dp::sim {

void Network::Carry(Node node, EventQueue::Event arrive) {
  if (cut_off_.count(node) > 0 || env_.dice.Chance(weather_.drop)) return;
  const int copies = env_.dice.Chance(weather_.duplicate) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const absl::Duration delay_max =
        env_.dice.Chance(weather_.slow) ? weather_.slow_max : weather_.delay_max;
    env_.events.After(env_.dice.Between(absl::Microseconds(50), delay_max), [this, node, arrive] {
      if (cut_off_.count(node) == 0) arrive();
    });
  }
}

}  // namespace dp::sim
