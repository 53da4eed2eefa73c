#include "base/random.h"

#include <sys/random.h>

#include "base/check.h"

namespace dp {

uint64_t EntropySeed() {
  uint64_t seed = 0;
  DP_CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
  return seed;
}

}  // namespace dp
