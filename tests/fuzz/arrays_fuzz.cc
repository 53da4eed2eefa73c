// Arrays and tables: NPY files, arrays of ZIP archives, CSV. A file is taken as a whole or not at
// all, and all that was taken can be read.
//
// The first byte chooses the reader, and for CSV how columns are named and divided.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/data/csv_file.h"
#include "base/data/npy_file.h"
#include "base/data/zip_member.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::arrays {
namespace {

constexpr uint8_t kCsv = 0x10;  // else NPY
constexpr uint8_t kZip = 0x20;  // the first member of an archive

void CheckNpy(absl::string_view input) {
  const MemoryFile file(input);
  const auto rows = dp::data::ReadNpy(file.path());
  if (!rows.ok()) return;
  DP_CHECK(rows->size() > 0 && rows->elements() > 0);
  const int64_t bytes = rows->size() * rows->elements() * dp::data::SizeOf(rows->type());
  if (input.substr(0, 2) != "\x1f\x8b") DP_CHECK(bytes < std::ssize(input));
  std::vector<float> row(static_cast<size_t>(rows->elements()));
  for (int64_t i = 0; i < rows->size(); ++i) rows->Read(i, absl::MakeSpan(row));
}

void CheckArchive(absl::string_view input) {
  const dp::data::FileBytes archive{{reinterpret_cast<const uint8_t*>(input.data()), input.size()},
                                    nullptr};
  const auto names = dp::data::ZipMemberNames(archive);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const auto member = dp::data::ReadZipMember(archive, name);
    if (!member.ok()) continue;
    uint32_t sum = 0;
    for (const uint8_t byte : member->bytes) sum += byte;
    DP_CHECK(sum <= 255 * member->bytes.size());
  }
}

void CheckCsv(absl::string_view input, uint8_t choice) {
  const MemoryFile file(input);
  dp::data::CsvFiles files{.paths = {file.path()}, .delimiter = (choice & 1) != 0 ? ';' : ','};
  if ((choice & 2) != 0) files.header = (choice & 4) != 0;
  if ((choice & 8) != 0) {
    files.labels = "0";
  } else {
    files.targets = {"0"};
  }
  const auto set = dp::data::ReadCsvSet(files);
  if (!set.ok()) return;
  for (int64_t i = 0; i < set->inputs.size(); ++i) {
    std::vector<float> row(static_cast<size_t>(set->inputs.elements()));
    set->inputs.Read(i, absl::MakeSpan(row));
    for (const float value : row) DP_CHECK(std::isfinite(value));
  }
  DP_CHECK(set->inputs.size() == (set->targets ? set->targets->size() : set->labels.size()));
  const auto shape = dp::data::ReadCsvShape(files);
  DP_CHECK(shape.ok() && *shape == set->inputs.shape());
}

std::string Npy(const std::string& header, const std::string& body) {
  return absl::StrCat(std::string("\x93NUMPY\1\0", 8), std::string(1, char(header.size())),
                      std::string(1, '\0'), header, body);
}

// An archive of one stored member, a.npy, of 68 bytes.
std::string Archive() {
  const std::string body = Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "\1\2\3");
  const auto word = [](size_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    return bytes;
  };
  const std::string common = word(20, 2) + word(0, 10) + word(0, 4) + word(body.size(), 4) +
                             word(body.size(), 4) + word(5, 2) + word(0, 2);
  const std::string local = word(0x04034b50, 4) + common + "a.npy" + body;
  const std::string entry = word(0x02014b50, 4) + word(20, 2) + common + word(0, 14) + "a.npy";
  return local + entry + word(0x06054b50, 4) + word(0, 4) + word(1, 2) + word(1, 2) +
         word(entry.size(), 4) + word(local.size(), 4) + word(0, 2);
}

}  // namespace

void Run(absl::string_view input) {
  const uint8_t choice = TakeChoice(&input);
  if ((choice & kCsv) != 0) return CheckCsv(input, choice);
  if ((choice & kZip) != 0) return CheckArchive(input);
  CheckNpy(input);
}

std::vector<std::string> Seeds() {
  return {
      Chosen(0, Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", "abcdefghijkl")),
      Chosen(0, Npy("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", "abcdefgh")),
      Chosen(kZip, Archive()),
      Chosen(kCsv | 8, "label,x\n1,2.5\n0,-3e4\n"),
      Chosen(kCsv | 1, "1;\"2\";3\r\n\r\n4;5;6"),
      Chosen(kCsv | 2 | 4, "\"a, b\",c\n1,2\n"),
  };
}

}  // namespace dp::fuzz::arrays
