#include "worker/engine/collectives/reduce/half_floats.h"

#include <cmath>
#include <limits>

#include "base/random.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

// The value of a 16-bit float with so many bits of exponent and mantissa, by definition.
double ValueOf(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Float16Format {
  using Type = Float16;
  static constexpr int kExponent = 5, kMantissa = 10;
  static Type Of(float value) { return ToFloat16(value); }
};
struct Bfloat16Format {
  using Type = Bfloat16;
  static constexpr int kExponent = 8, kMantissa = 7;
  static Type Of(float value) { return ToBfloat16(value); }
};

template <typename Format>
class HalfFloatsTest : public ::testing::Test {
 protected:
  using Half = typename Format::Type;
  static double Value(uint16_t bits) { return ValueOf(bits, Format::kExponent, Format::kMantissa); }
  // The magnitude from which on values become infinite: halfway from the largest to the next.
  static constexpr uint16_t kInfinity = ((1 << Format::kExponent) - 1) << Format::kMantissa;
  static uint16_t RoundedUp(float value) { return Format::Of(value).bits; }
};
using Formats = ::testing::Types<Float16Format, Bfloat16Format>;
TYPED_TEST_SUITE(HalfFloatsTest, Formats);

TYPED_TEST(HalfFloatsTest, EveryValueIsReadAsDefinedAndWrittenBack) {
  using Half = typename TypeParam::Type;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const float value = ToFloat(half);
    if (std::isnan(this->Value(half.bits))) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(ToFloat(TypeParam::Of(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), this->Value(half.bits)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(TypeParam::Of(value).bits, half.bits) << bits;
  }
}

TYPED_TEST(HalfFloatsTest, ValuesBetweenTwoGoToTheNearerAndTiesToTheEvenOne) {
  for (uint16_t low = 0; low + 1 < this->kInfinity; ++low) {
    const auto lower = static_cast<float>(this->Value(low));
    const auto upper = static_cast<float>(this->Value(low + 1));
    const float middle = lower + (upper - lower) / 2;
    const uint16_t even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(TypeParam::Of(middle).bits, even) << low;
    ASSERT_EQ(TypeParam::Of(-middle).bits, even | 0x8000) << low;
    ASSERT_EQ(TypeParam::Of(std::nextafter(middle, lower)).bits, low) << low;
    ASSERT_EQ(TypeParam::Of(std::nextafter(middle, upper)).bits, low + 1) << low;
  }
}

TEST(Float16Test, ValuesThatAreTooLargeBecomeInfinite) {
  EXPECT_EQ(ToFloat16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToFloat16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(ToFloat16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
}

TEST(Float16Test, ValuesThatAreTooSmallBecomeZeroOfTheirSign) {
  EXPECT_EQ(ToFloat16(std::ldexp(1.0f, -25)).bits, 0);  // a tie
  EXPECT_EQ(ToFloat16(std::nextafter(std::ldexp(1.0f, -25), 1.0f)).bits, 1);
  EXPECT_EQ(ToFloat16(-1e-30f).bits, 0x8000);
}

TEST(Bfloat16Test, TheLargestFloatBecomesInfinite) {
  EXPECT_EQ(ToBfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

}  // namespace
}  // namespace dp::engine
