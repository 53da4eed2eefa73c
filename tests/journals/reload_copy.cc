#include "tests/journals/reload.h"

namespace dp::reload {

core::State Reload(const core::State& state) { return state; }

}  // namespace dp::reload
