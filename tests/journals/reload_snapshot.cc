#include "base/check.h"
#include "server/journal/convert_state.h"
#include "tests/journals/reload.h"

namespace dp::reload {

core::State Reload(const core::State& state) {
  constexpr size_t kPieceBytes = 64;  // several pieces even for a small state
  const std::vector<std::string> pieces = server::ToPieces(state, kPieceBytes);
  absl::StatusOr<core::State> loaded = server::FromPieces(pieces);
  DP_CHECK(loaded.ok());
  // A field that is written but not read would be missing from the second snapshot.
  DP_CHECK(server::ToPieces(*loaded, kPieceBytes) == pieces);
  return *std::move(loaded);
}

}  // namespace dp::reload
