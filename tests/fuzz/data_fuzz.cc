// Files of samples: IDX, plain or compressed; tokens and text. A file is taken as a whole or not at
// all. The bytes that were read have the size that the header asks for. Every token is in the
// vocabulary.
//
// The first byte chooses the reader: the axes of the IDX file, or the kind of tokens.

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "client/job/idx_shape.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"
#include "worker/engine/data/idx.h"
#include "worker/engine/data/token_file.h"

namespace dp::fuzz::data {
namespace {

constexpr uint8_t kTokens = 0x10;  // else IDX
constexpr uint8_t kText = 0x20;    // of tokens
constexpr uint8_t kZip = 0x40;     // compress the input first

std::string Zipped(absl::string_view bytes) {
  z_stream stream{};
  DP_CHECK(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(bytes.size() + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  DP_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void CheckIdx(const std::string& path, int axes, absl::string_view plain) {
  const auto array = engine::ReadIdx(path, axes);
  if (!array.ok()) return;
  DP_CHECK(array->extents.size() == static_cast<size_t>(axes));
  int64_t count = 1;
  for (const int64_t extent : array->extents) {
    DP_CHECK(extent > 0);
    count *= extent;
  }
  DP_CHECK(std::ssize(array->bytes) == count);
  // A compressed input holds other bytes than itself.
  const size_t header = 4 + 4 * static_cast<size_t>(axes);
  if (plain.empty() || plain.size() != header + array->bytes.size()) return;
  DP_CHECK(std::equal(array->bytes.begin(), array->bytes.end(), plain.begin() + header,
                      [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }));
}

// dpctl reads no more than the header of such a file, whatever follows.
void CheckShape(absl::string_view file) {
  static const ScratchDir& dir = *new ScratchDir();
  std::ofstream(dir.path() / "train-images-idx3-ubyte", std::ios::binary) << file;
  const auto shape = client::IdxSampleShape(dir.path());
  if (!shape.has_value()) return;
  DP_CHECK(shape->size() == 3 && (*shape)[0] == 1);
  for (const int64_t extent : *shape) DP_CHECK(extent >= 0 && extent <= UINT32_MAX);
  const auto array = engine::ReadIdx(dir.path() / "train-images-idx3-ubyte", 3);
  if (array.ok()) DP_CHECK(array->extents[1] == (*shape)[1] && array->extents[2] == (*shape)[2]);
}

void CheckTokens(absl::string_view bytes, engine::TokenFormat format, int vocabulary) {
  const auto tokens = engine::ReadTokenFile(MemoryFile(bytes).path(), format, vocabulary);
  if (!tokens.ok()) return;
  DP_CHECK(std::all_of(tokens->begin(), tokens->end(),
                       [vocabulary](uint16_t token) { return token < vocabulary; }));
  if (format == engine::TokenFormat::kText) DP_CHECK(tokens->size() == bytes.size());
  if (format == engine::TokenFormat::kTokens) DP_CHECK(2 * tokens->size() <= bytes.size());
}

std::string Idx(absl::string_view header, size_t bytes) {
  return absl::StrCat(header, std::string(bytes, '\7'));
}

}  // namespace

void Run(absl::string_view input) {
  const uint8_t choice = TakeChoice(&input);
  if ((choice & kTokens) != 0) {
    const bool text = (choice & kText) != 0;
    CheckTokens(input, text ? engine::TokenFormat::kText : engine::TokenFormat::kTokens,
                (choice & 1) != 0 ? 256 : 50257);
  } else if ((choice & kZip) != 0) {
    CheckIdx(MemoryFile(Zipped(input)).path(), 1 + choice % 4, input);
  } else {
    const bool zipped = input.substr(0, 2) == "\x1f\x8b";
    CheckIdx(MemoryFile(input).path(), 1 + choice % 4, zipped ? "" : input);
    CheckShape(input);
  }
}

std::vector<std::string> Seeds() {
  const std::string labels("\0\0\x08\1\0\0\0\3", 8);
  const std::string images("\0\0\x08\3\0\0\0\2\0\0\0\3\0\0\0\4", 16);
  std::string header("\x88\xd8\x34\1\1\0\0\0\2\0\0\0", 12);  // llm.c's, of two tokens
  header.resize(1024);
  return {Chosen(0, Idx(labels, 3)),
          Chosen(2, Idx(images, 24)),
          Chosen(0, Zipped(Idx(labels, 3))),
          Chosen(2, Zipped(Idx(images, 24))),
          Chosen(2 | kZip, Idx(images, 24)),
          Chosen(kTokens, std::string("\1\0\2\0\x50\xc4", 6)),
          Chosen(kTokens, header + std::string("\1\0\2\0", 4)),
          Chosen(kTokens | kText | 1, "To be, or not to be")};
}

}  // namespace dp::fuzz::data
