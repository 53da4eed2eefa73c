#pragma once

namespace dp {

// std::visit(Overloaded{[](const A&) {...}, [](const B&) {...}}, variant): one lambda a case, and a
// case that is missing does not compile.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace dp
