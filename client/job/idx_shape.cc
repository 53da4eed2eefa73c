#include "client/job/idx_shape.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <memory>

namespace dp::client {
namespace {

// Magic, count, rows and columns, four bytes each, most significant first.
using Header = std::array<uint8_t, 16>;
constexpr uint32_t kImagesMagic = 0x00000803;

uint32_t Number(const Header& header, size_t position) {
  uint32_t number = 0;
  for (size_t i = 4 * position; i < 4 * (position + 1); ++i) number = number << 8 | header[i];
  return number;
}

// gzread also reads plain files.
std::optional<Header> ReadHeader(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  Header header;
  if (file == nullptr) return std::nullopt;
  if (gzread(file.get(), header.data(), header.size()) != static_cast<int>(header.size()))
    return std::nullopt;
  return header;
}

}  // namespace

std::optional<model::Shape> IdxSampleShape(const std::string& dir) {
  const std::string path = dir + "/train-images-idx3-ubyte";
  std::optional<Header> header = ReadHeader(path);
  if (!header) header = ReadHeader(path + ".gz");
  if (!header || Number(*header, 0) != kImagesMagic) return std::nullopt;
  return model::Shape{1, Number(*header, 2), Number(*header, 3)};
}

}  // namespace dp::client
