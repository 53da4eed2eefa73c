#include "base/field_list.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {

struct Place {
  std::string worker;
  std::optional<int> slot = {};

  using Fields = FieldList<&Place::worker, &Place::slot>;
};

// Its list lacks a member.
struct Short {
  int first = 0;
  std::vector<Place> places;
  std::optional<Place> last;

  using Fields = FieldList<&Short::first, &Short::last>;
};

namespace {

TEST(FieldListTest, FieldsAreVisitedInOrderUnderTheirNames) {
  const Place place{"w", 3};
  std::vector<std::string> names;
  ForEachField<Place>([&](auto field) { names.emplace_back(field.Name()); });
  EXPECT_THAT(names, testing::ElementsAre("worker", "slot"));
  EXPECT_EQ(NameOf<Place>(), "Place");
  EXPECT_EQ(place.*Field<&Place::worker>::kMember, "w");
}

TEST(FieldListTest, AListThatLacksAMemberIsNoticed) {
  static_assert(Place::Fields::kSize == MemberCount<Place>());
  static_assert(Short::Fields::kSize < MemberCount<Short>());
  static_assert(MemberCount<Short>() == 3);
}

TEST(FieldListTest, AListKnowsItsMembers) {
  static_assert(Short::Fields::Has<&Short::last>());
  static_assert(!Short::Fields::Has<&Short::places>());
}

}  // namespace
}  // namespace dp
