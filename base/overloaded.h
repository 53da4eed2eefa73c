#pragma once

namespace dp {

// std::visit(Overloaded{[](const A&) {...}, [](const B&) {...}}, variant): one lambda per case. A
// missing case does not compile.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace dp
