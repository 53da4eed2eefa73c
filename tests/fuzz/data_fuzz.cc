// Files of samples: IDX, plain or compressed; CIFAR; tokens and text. A file is taken as a whole or
// not at all. The bytes that were read have the size that the header asks for. Every token is in
// the vocabulary.
//
// The first byte chooses the reader: the format, and the kind of tokens or images.

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/data/cifar_file.h"
#include "base/data/idx_file.h"
#include "base/testing/scratch_dir.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"
#include "worker/engine/data/token_file.h"

namespace dp::fuzz::data {
namespace {

constexpr uint8_t kTokens = 0x10;  // else IDX
constexpr uint8_t kText = 0x20;    // of tokens
constexpr uint8_t kZip = 0x40;     // compress the input first
constexpr uint8_t kCifar = 0x80;   // records of images

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

void CheckIdx(const std::string& path, absl::string_view plain) {
  const auto rows = dp::data::ReadIdx(path);
  if (!rows.ok()) return;
  DP_CHECK(rows->size() > 0 && rows->elements() > 0);
  const int64_t row_bytes = rows->elements() * dp::data::SizeOf(rows->type());
  // A compressed input holds other bytes than itself.
  if (plain.empty()) return;
  const size_t header = 4 + 4 * static_cast<size_t>(plain[3]);
  DP_CHECK(plain.size() == header + static_cast<size_t>(rows->size() * row_bytes));
  std::vector<float> row(static_cast<size_t>(rows->elements()));
  for (int64_t i = 0; i < rows->size(); ++i) {
    DP_CHECK(std::memcmp(rows->bytes(i), plain.data() + header + i * row_bytes, row_bytes) == 0);
    rows->Read(i, absl::MakeSpan(row));
  }
}

// dpctl reads no more than the header of such a file, whatever follows.
void CheckShape(absl::string_view file) {
  static const ScratchDir& dir = *new ScratchDir();
  std::ofstream(dir.path() / "train-images-idx3-ubyte", std::ios::binary) << file;
  const auto shape = dp::data::ReadIdxShape(dir.path());
  if (!shape.ok()) return;
  DP_CHECK(shape->size() == 3 && (*shape)[0] == 1);
  for (const int64_t extent : *shape) DP_CHECK(extent > 0 && extent <= UINT32_MAX);
  const auto rows = dp::data::ReadIdx(dir.path() / "train-images-idx3-ubyte");
  if (rows.ok()) DP_CHECK(rows->shape()[0] == (*shape)[1] && rows->shape()[1] == (*shape)[2]);
}

// Whole records, at least one, whose labels are classes. The label is a record's last byte before
// the image.
bool IsCifar(absl::string_view file, int64_t record, unsigned classes) {
  if (file.empty() || std::ssize(file) % record != 0) return false;
  for (int64_t at = record - 3072 - 1; at < std::ssize(file); at += record) {
    if (static_cast<unsigned char>(file[static_cast<size_t>(at)]) >= classes) return false;
  }
  return true;
}

void CheckCifar(absl::string_view file, dp::data::Cifar kind) {
  static const ScratchDir& dir = *new ScratchDir();
  std::ofstream(dir.path() / "test.bin", std::ios::binary) << file;
  std::ofstream(dir.path() / "test_batch.bin", std::ios::binary) << file;
  const auto set = dp::data::ReadCifarSet(dir.path(), kind, dp::data::Split::kTest);
  const int64_t record = 3072 + (kind == dp::data::Cifar::k10 ? 1 : 2);
  const bool zipped = file.substr(0, 2) == "\x1f\x8b";
  const unsigned classes = kind == dp::data::Cifar::k10 ? 10 : 100;
  if (!zipped) DP_CHECK(set.ok() == IsCifar(file, record, classes));
  if (set.ok()) DP_CHECK(set->labels.size() == set->inputs.size());
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
    CheckIdx(MemoryFile(Zipped(input)).path(), input);
  } else if ((choice & kCifar) != 0) {
    CheckCifar(input, (choice & 1) != 0 ? dp::data::Cifar::k100 : dp::data::Cifar::k10);
  } else {
    const bool zipped = input.substr(0, 2) == "\x1f\x8b";
    CheckIdx(MemoryFile(input).path(), zipped ? "" : input);
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
          Chosen(kCifar, std::string(3073, '\3')),
          Chosen(kCifar | 1, std::string(2 * 3074, '\3')),
          Chosen(kTokens, std::string("\1\0\2\0\x50\xc4", 6)),
          Chosen(kTokens, header + std::string("\1\0\2\0", 4)),
          Chosen(kTokens | kText | 1, "To be, or not to be")};
}

}  // namespace dp::fuzz::data
