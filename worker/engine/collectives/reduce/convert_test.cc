#include "worker/engine/collectives/reduce/convert.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/reduce/half_floats.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

template <typename To, typename From>
std::vector<To> ConvertAll(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  Convert(ConstElements(absl::MakeConstSpan(from)), Elements(absl::MakeSpan(to)));
  return to;
}

std::vector<uint16_t> BitsOfAll(const auto& halves) {
  std::vector<uint16_t> bits;
  for (const auto& half : halves) bits.push_back(half.bits);
  return bits;
}

TEST(ConvertTest, HalvesAreTheNearestFloat) {
  const std::vector<float> floats = {1.0f, -2.5f, 1.00390625f, 1.01171875f, 1e30f};
  // 1 + 2^-8 lies between two bfloat16, as 1 + 3 * 2^-8 does; ties go to the even one.
  EXPECT_THAT(BitsOfAll(ConvertAll<Bfloat16>(floats)),
              ElementsAre(0x3f80, 0xc020, 0x3f80, 0x3f82, 0x714a));
  EXPECT_THAT(BitsOfAll(ConvertAll<Float16>(floats)),
              ElementsAre(0x3c00, 0xc100, 0x3c04, 0x3c0c, 0x7c00));
}

TEST(ConvertTest, EachTypeIsReadBack) {
  const std::vector<float> floats = {0.5f, -3.0f, 40.0f};
  const auto check = [&]<typename T>(T) {
    EXPECT_EQ(ConvertAll<float>(ConvertAll<T>(floats)), floats);
    EXPECT_EQ(ConvertAll<double>(ConvertAll<T>(floats)), (std::vector<double>{0.5, -3.0, 40.0}));
  };
  check(float{});
  check(double{});
  check(Float16{});
  check(Bfloat16{});
}

TEST(ConvertTest, OneHalfBecomesTheOther) {
  EXPECT_THAT(BitsOfAll(ConvertAll<Bfloat16>(std::vector<Float16>{{0x3c01}, {0x4000}})),
              ElementsAre(0x3f80, 0x4000));
}

}  // namespace
}  // namespace dp::engine
