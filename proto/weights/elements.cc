#include "proto/weights/elements.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "base/model/shape.h"

namespace dp {
namespace {

using Reader = double (*)(absl::string_view data, int64_t index);

template <typename Element>
Element ElementAt(absl::string_view data, int64_t index) {
  Element element;
  std::memcpy(&element, data.data() + index * static_cast<int64_t>(sizeof(element)),
              sizeof(element));
  return element;
}

template <typename Element>
double PlainNumber(absl::string_view data, int64_t index) {
  return static_cast<double>(ElementAt<Element>(data, index));
}

// IEEE 754's half precision.
double HalfNumber(absl::string_view data, int64_t index) {
  const auto half = ElementAt<uint16_t>(data, index);
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = static_cast<float>(fraction) * 0x1p-24f;
  return sign == 0 ? tiny : -tiny;
}

double Bfloat16Number(absl::string_view data, int64_t index) {
  return std::bit_cast<float>(static_cast<uint32_t>(ElementAt<uint16_t>(data, index)) << 16);
}

struct NumberType {
  absl::string_view name;
  bool floats;
  Reader read;
};
constexpr NumberType kNumberTypes[] = {
    {"F32", true, PlainNumber<float>},
    {"F64", true, PlainNumber<double>},
    {"F16", true, HalfNumber},
    {"BF16", true, Bfloat16Number},
    {"I64", false, PlainNumber<int64_t>},
    {"I32", false, PlainNumber<int32_t>},
    {"I16", false, PlainNumber<int16_t>},
    {"I8", false, PlainNumber<int8_t>},
    {"U8", false, PlainNumber<uint8_t>},
    {"BOOL", false, PlainNumber<uint8_t>},
};

// Null for a type that is none of these.
const NumberType* TypeOf(const EncodedTensor& tensor) {
  const auto* const found =
      std::find_if(std::begin(kNumberTypes), std::end(kNumberTypes),
                   [&](const NumberType& each) { return each.name == tensor.type; });
  return found == std::end(kNumberTypes) ? nullptr : found;
}

}  // namespace

bool HasFloats(const EncodedTensor& tensor) {
  const NumberType* type = TypeOf(tensor);
  return type != nullptr && type->floats;
}

bool HasNumbers(const EncodedTensor& tensor) { return TypeOf(tensor) != nullptr; }

double NumberAt(const EncodedTensor& tensor, int64_t index) {
  return TypeOf(tensor)->read(tensor.data, index);
}

int64_t ElementCountOf(const EncodedTensor& tensor) { return model::ElementCount(tensor.shape); }

}  // namespace dp
