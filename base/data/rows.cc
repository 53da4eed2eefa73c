#include "base/data/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace dp::data {
namespace {

template <size_t kSize>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
  static Type Swapped(Type word) { return word; }
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
  static Type Swapped(Type word) { return __builtin_bswap16(word); }
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
  static Type Swapped(Type word) { return __builtin_bswap32(word); }
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
  static Type Swapped(Type word) { return __builtin_bswap64(word); }
};

// Element `index` behind `bytes`, which may be unaligned.
template <typename Element>
Element Load(const uint8_t* bytes, int64_t index, bool swap) {
  using Word = WordOf<sizeof(Element)>;
  typename Word::Type word;
  std::memcpy(&word, bytes + index * static_cast<int64_t>(sizeof(Element)), sizeof word);
  return std::bit_cast<Element>(swap ? Word::Swapped(word) : word);
}

template <typename Visitor>
auto WithElement(ElementType type, const Visitor& visit) {
  switch (type) {
    case ElementType::kUint8:
      return visit(uint8_t{});
    case ElementType::kInt8:
      return visit(int8_t{});
    case ElementType::kInt16:
      return visit(int16_t{});
    case ElementType::kInt32:
      return visit(int32_t{});
    case ElementType::kInt64:
      return visit(int64_t{});
    case ElementType::kFloat32:
      return visit(float{});
    case ElementType::kFloat64:
      break;
  }
  return visit(double{});
}

// Above this, doubles leave out whole numbers.
constexpr double kExactMax = 9007199254740992.0;

template <typename Element>
std::optional<int64_t> WholeOf(Element value) {
  if constexpr (std::is_floating_point_v<Element>) {
    const auto number = static_cast<double>(value);
    if (!(std::abs(number) <= kExactMax) || std::floor(number) != number) return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

}  // namespace

void Rows::Append(const RowBlock& block, std::shared_ptr<const void> owner) {
  if (block.count == 0) return;
  blocks_.push_back(block);
  first_.push_back(size_);
  owners_.push_back(std::move(owner));
  size_ += block.count;
}

const uint8_t* Rows::bytes(int64_t row) const {
  DP_CHECK(row >= 0 && row < size_);
  const size_t block = std::upper_bound(first_.begin(), first_.end(), row) - first_.begin() - 1;
  return blocks_[block].first + (row - first_[block]) * blocks_[block].stride;
}

void Rows::Read(int64_t row, absl::Span<float> to) const {
  const int64_t count = elements();
  DP_CHECK(static_cast<int64_t>(to.size()) >= count);
  const uint8_t* const from = bytes(row);
  WithElement(type_, [&](auto element) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<float>(Load<decltype(element)>(from, i, big_endian_));
    }
  });
}

std::optional<int64_t> Rows::Whole(int64_t row) const {
  const uint8_t* const from = bytes(row);
  return WithElement(
      type_, [&](auto element) { return WholeOf(Load<decltype(element)>(from, 0, big_endian_)); });
}

std::optional<absl::Span<const uint8_t>> Rows::contiguous_bytes() const {
  const int64_t row_bytes = elements();
  if (type_ != ElementType::kUint8 || blocks_.size() != 1 || blocks_[0].stride != row_bytes) {
    return std::nullopt;
  }
  return absl::MakeConstSpan(blocks_[0].first, static_cast<size_t>(size_ * row_bytes));
}

}  // namespace dp::data
