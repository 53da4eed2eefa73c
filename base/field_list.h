#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

// A plain struct lists its members once more, beside them:
//
//   struct Drain {
//     std::string reason;
//     absl::Time at;
//
//     using Fields = FieldList<&Drain::reason, &Drain::at>;
//   };
//
// The records and snapshots of the journal and the digest of the state follow these lists, under
// the names of the members. Code that follows a list does not compile while a member is missing.

namespace dp {

// The compiler's name of a function ends in "kOf = dp::Drain]", or goes on with "; ...". Gives the
// word behind the last colon of that type or member.
constexpr std::string_view LastWord(std::string_view function) {
  constexpr std::string_view kBefore = "kOf = ";
  std::string_view of = function.substr(function.find(kBefore) + kBefore.size());
  of = of.substr(0, of.find_first_of(";]"));
  if (of.back() == ')') of.remove_suffix(1);
  return of.substr(of.rfind(':') + 1);
}

// "Drain".
template <typename kOf>
constexpr std::string_view NameOf() {
  return LastWord(__PRETTY_FUNCTION__);
}

// One member of a struct.
template <auto kOf>
struct Field {
  static constexpr auto kMember = kOf;

  // "reason".
  static constexpr std::string_view Name() { return LastWord(__PRETTY_FUNCTION__); }
};

template <auto... kMembers>
struct FieldList {
  static constexpr size_t kSize = sizeof...(kMembers);

  template <auto kMember>
  static constexpr bool Has() {
    return (std::is_same_v<Field<kMember>, Field<kMembers>> || ...);
  }
  // The first member has index 0.
  template <auto kMember>
  static constexpr size_t IndexOf() {
    size_t index = 0;
    (void)((std::is_same_v<Field<kMember>, Field<kMembers>> || (++index, false)) || ...);
    return index;
  }
  // Whether no member is there twice.
  static constexpr bool IsDistinct() {
    size_t equal_pairs = 0;
    const auto count = [&](auto one) {
      ((equal_pairs += std::is_same_v<decltype(one), Field<kMembers>>), ...);
    };
    (count(Field<kMembers>()), ...);
    return equal_pairs == kSize;  // each with itself
  }
  // Calls `visit(Field<kMember>())` for each member, in the order of the list.
  template <typename Visitor>
  static void ForEach(const Visitor& visit) {
    (visit(Field<kMembers>()), ...);
  }
};

template <typename T>
concept HasFields = requires {
  typename T::Fields;
};

// A value of any type, to count the members of a struct with.
struct AnyValue {
  template <typename T>
  operator T() const;  // never called
};

// Whether braces around so many values can initialise a T.
template <typename T, size_t... kValues>
constexpr bool TakesValues(std::index_sequence<kValues...>) {
  return requires { T{(static_cast<void>(kValues), AnyValue())...}; };
}

template <typename T, size_t kAtLeast = 0>
constexpr size_t MemberCount() {
  if constexpr (TakesValues<T>(std::make_index_sequence<kAtLeast + 1>())) {
    return MemberCount<T, kAtLeast + 1>();
  } else {
    return kAtLeast;
  }
}

// Calls `visit` for each field of T.
template <HasFields T, typename Visitor>
void ForEachField(const Visitor& visit) {
  static_assert(T::Fields::kSize == MemberCount<T>() && T::Fields::IsDistinct(),
                "T::Fields must list each member of T once");
  T::Fields::ForEach(visit);
}

}  // namespace dp
