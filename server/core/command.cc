#include "server/core/command.h"

#include <utility>

namespace dp::core {

// Used: by other files, which the compiler of this one does not know. Clang keeps it for them only
// if a function with external linkage calls it.
template <typename Kind>
requires kIsKindOf<Kind, AnyAction>
[[gnu::used, gnu::noinline]] Action::Action(Kind kind) : AnyAction(std::move(kind)) {}

// Makes the constructor for every kind.
template <typename... Kinds>
void ConstructEach(const std::variant<Kinds...>*) {
  (static_cast<void>(Action(Kinds())), ...);
}
template void ConstructEach(const AnyAction*);

Action::Action() = default;
Action::Action(const Action&) = default;
Action::Action(Action&&) noexcept = default;
Action& Action::operator=(const Action&) = default;
Action& Action::operator=(Action&&) noexcept = default;
Action::~Action() = default;

}  // namespace dp::core
