#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/data/element_type.h"
#include "base/model/shape.h"

namespace dp::data {

// Equally spaced rows of bytes, as a part of a file holds them.
struct RowBlock {
  const uint8_t* first = nullptr;
  int64_t stride = 0;  // bytes from one row to the next
  int64_t count = 0;
};

// Many arrays of one shape and type, which lie in blocks of memory one after another. Immutable
// once made, so any thread may read.
class Rows {
 public:
  Rows() = default;
  Rows(ElementType type, bool big_endian, model::Shape shape)
      : type_(type), big_endian_(big_endian), shape_(std::move(shape)) {}

  // Appends rows; `owner` keeps their memory.
  void Append(const RowBlock& block, std::shared_ptr<const void> owner);

  ElementType type() const { return type_; }
  bool big_endian() const { return big_endian_; }
  const model::Shape& shape() const { return shape_; }
  int64_t size() const { return size_; }
  int64_t elements() const { return model::ElementCount(shape_); }

  // 0 <= row < size(). The bytes are in the file's order.
  const uint8_t* bytes(int64_t row) const;
  // Writes the elements of a row, converted to float; `to` has elements() or more.
  void Read(int64_t row, absl::Span<float> to) const;
  // The first element of a row as a whole number; none if the number has a fraction or does not
  // fit.
  std::optional<int64_t> Whole(int64_t row) const;

  // All bytes, if rows are bytes without gaps between them.
  std::optional<absl::Span<const uint8_t>> contiguous_bytes() const;

 private:
  ElementType type_ = ElementType::kUint8;
  bool big_endian_ = false;
  model::Shape shape_;
  std::vector<RowBlock> blocks_;
  std::vector<int64_t> first_;  // number of each block's first row
  std::vector<std::shared_ptr<const void>> owners_;
  int64_t size_ = 0;
};

}  // namespace dp::data
