#include "worker/trainer/fault_point.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace dp::trainer {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Place {
  std::string phase;  // empty: nowhere
  int64_t step = 0;
};

Place StopsAt() {
  const std::vector<std::string> parts = absl::StrSplit(Variable("TRAINER_STOPS_AT"), ':');
  Place place;
  const bool always = parts.size() == 4 && parts[3] == "always";
  const bool here = (parts.size() == 3 || always) && parts[0] == Variable("DP_RANK") &&
                    (always || Variable("DP_GENERATION") == "1") &&
                    absl::SimpleAtoi(parts[2], &place.step);
  if (here) place.phase = parts[1];
  return place;
}

}  // namespace

void ReachFaultPoint(absl::string_view phase, int64_t step) {
  static const Place place = StopsAt();
  if (place.phase.empty() || place.phase != phase || step < place.step) return;
  static std::atomic<bool> reached = false;
  if (reached.exchange(true)) return;
  std::printf("fault point %s %lld\n", place.phase.c_str(), static_cast<long long>(step));
  std::fflush(stdout);
  std::raise(SIGSTOP);
}

}  // namespace dp::trainer
