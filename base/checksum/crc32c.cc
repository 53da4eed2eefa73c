#include "base/checksum/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dp {
namespace {

// The polynomial with its bits reversed: the lowest bit of a byte comes first.
constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr size_t kBytesAtOnce = 8;

// tables[k][b] is the CRC of byte b followed by k zero bytes, so eight bytes take eight look-ups
// that do not depend on each other.
using Tables = std::array<std::array<uint32_t, 256>, kBytesAtOnce>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kBytesAtOnce; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint64_t LoadLittleEndian(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(uint32_t crc,
                                                               absl::string_view bytes) {
  uint64_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kBytesAtOnce; left -= kBytesAtOnce, at += kBytesAtOnce) {
    state = _mm_crc32_u64(state, LoadLittleEndian(at));
  }
  for (; left > 0; --left, ++at) {
    state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<uint8_t>(*at));
  }
  return ~static_cast<uint32_t>(state);
}

#endif

}  // namespace

uint32_t ExtendCrc32cByTables(uint32_t crc, absl::string_view bytes) {
  uint32_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kBytesAtOnce; left -= kBytesAtOnce, at += kBytesAtOnce) {
    const uint64_t word = LoadLittleEndian(at) ^ state;
    state = 0;
    for (size_t k = 0; k < kBytesAtOnce; ++k) {
      state ^= kTables[kBytesAtOnce - 1 - k][(word >> (8 * k)) & 0xff];
    }
  }
  for (; left > 0; --left, ++at) {
    state = (state >> 8) ^ kTables[0][(state ^ static_cast<uint8_t>(*at)) & 0xff];
  }
  return ~state;
}

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ExtendByInstruction(crc, bytes);
#endif
  return ExtendCrc32cByTables(crc, bytes);
}

}  // namespace dp
