#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/check.h"

namespace dp::data {

inline std::string BigEndianOf(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

inline std::string PngChunk(const std::string& type, const std::string& body) {
  const std::string all = type + body;
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(all.data()), all.size());
  return BigEndianOf(static_cast<uint32_t>(body.size())) + all +
         BigEndianOf(static_cast<uint32_t>(crc));
}

// A PNG file of 8 bits a channel; `bytes` has the pixels row after row. `kind` is PNG's: 0 gray, 2
// colours, 6 colours and alpha.
inline std::string PngOf(uint32_t rows, uint32_t columns, char kind, const std::string& bytes) {
  const size_t row_bytes = bytes.size() / rows;
  std::string lines;
  for (uint32_t row = 0; row < rows; ++row) {
    lines += '\0';  // no filter
    lines += bytes.substr(row * row_bytes, row_bytes);
  }
  std::string packed(compressBound(lines.size()), '\0');
  uLongf size = packed.size();
  DP_CHECK(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                    reinterpret_cast<const Bytef*>(lines.data()), lines.size()) == Z_OK);
  packed.resize(size);
  const std::string header =
      BigEndianOf(columns) + BigEndianOf(rows) + '\x8' + kind + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) + PngChunk("IDAT", packed) +
         PngChunk("IEND", "");
}

// Writes a file and the folders above it.
inline void WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace dp::data
