#include "base/data/npy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Number(uint64_t value, size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return bytes;
}

// As numpy.save writes an array.
std::string Npy(const std::string& type, const std::string& shape, const std::string& body,
                const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.resize((header.size() + 10) / 64 * 64 + 54 - 1, ' ');
  header += '\n';
  return "\x93NUMPY" + std::string("\1\0", 2) + Number(header.size(), 2) + header + body;
}

std::string Deflated(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(bytes.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An archive of one member.
std::string Zip(const std::string& name, const std::string& bytes, bool deflate) {
  const std::string packed = deflate ? Deflated(bytes) : bytes;
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  const std::string common = Number(20, 2) + Number(0, 2) + Number(deflate ? 8 : 0, 2) +
                             Number(0, 4) + Number(crc, 4) + Number(packed.size(), 4) +
                             Number(bytes.size(), 4) + Number(name.size(), 2) + Number(0, 2);
  const std::string local = Number(0x04034b50, 4) + common + name + packed;
  const std::string entry = Number(0x02014b50, 4) + Number(20, 2) + common + Number(0, 14) + name;
  return local + entry + Number(0x06054b50, 4) + Number(0, 4) + Number(1, 2) + Number(1, 2) +
         Number(entry.size(), 4) + Number(local.size(), 4) + Number(0, 2);
}

class NpyFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& bytes, const std::string& name = "a.npy") {
    std::ofstream(dir_.path() / name, std::ios::binary) << bytes;
    return dir_.path() / name;
  }
  std::string ErrorOf(const std::string& bytes) {
    return std::string(ReadNpy(Write(bytes)).status().message());
  }
  static std::vector<float> Row(const Rows& rows, int64_t row) {
    std::vector<float> values(static_cast<size_t>(rows.elements()));
    rows.Read(row, absl::MakeSpan(values));
    return values;
  }

  ScratchDir dir_;
};

TEST_F(NpyFileTest, AnArchiveNeedsTheNameOfAnArray) {
  const std::string path = dir_.path() / "both.npz";
  std::ofstream(path, std::ios::binary) << Zip("x.npy", Npy("|u1", "(1,)", "a"), false);
  EXPECT_EQ(ReadNpy(path).status().message(),
            path + ": is an archive of arrays; name an array, as " + path + "#x");
}

TEST_F(NpyFileTest, RowsAreElementsOfTheFirstAxis) {
  const auto rows = ReadNpy(
      Write(Npy("<i2", "(2, 3)", Number(0x0003'0002'0001, 6) + Number(0x0006'0005'fffc, 6))));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 2);
  EXPECT_THAT(Row(*rows, 1), ElementsAre(-4, 5, 6));
  const auto flat = ReadNpy(Write(Npy(">f4", "(2,)", std::string("\x3f\x80\0\0\xbf\0\0\0", 8))));
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_EQ(flat->shape(), (model::Shape{1}));
  EXPECT_THAT(Row(*flat, 1), ElementsAre(-0.5));
  EXPECT_EQ(Row(*ReadNpy(Write(Npy("|b1", "(2,)", std::string("\0\1", 2)))), 1)[0], 1);
}

TEST_F(NpyFileTest, AMemberOfAnArchiveMayBeStoredOrCompressed) {
  const std::string array = Npy("|u1", "(3,)", "\1\2\3");
  for (const bool deflate : {false, true}) {
    const std::string archive = Write(Zip("x.npy", array, deflate), "a.npz");
    const auto rows = ReadNpy(archive + "#x");
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_THAT(Row(*rows, 2), ElementsAre(3));
    EXPECT_EQ(ReadNpy(archive + "#y").status().message(),
              archive + ": has no member y.npy; there are x.npy");
  }
}

TEST_F(NpyFileTest, AFileMayHaveTheSignInItsName) {
  EXPECT_TRUE(ReadNpy(Write(Npy("|u1", "(3,)", "\1\2\3"), "a#1.npy")).ok());
}

TEST_F(NpyFileTest, ADamagedArchiveIsAnErrorAtEveryByte) {
  const std::string whole = Zip("x.npy", Npy("|u1", "(3,)", "\1\2\3"), true);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadNpy(Write(whole.substr(0, size), "a.npz") + "#x").ok()) << size;
  }
  std::string flipped = whole;
  flipped[14] ^= 1;
  flipped[whole.rfind("PK\x01\x02") + 16] ^= 1;  // the checksum, at both places
  EXPECT_FALSE(ReadNpy(Write(flipped, "a.npz") + "#x").ok());
}

TEST_F(NpyFileTest, OtherTypesAndOrdersAreErrorsWithARemedy) {
  EXPECT_THAT(ErrorOf(Npy("<f2", "(1,)", "ab")),
              HasSubstr("a.npy: has elements of type '<f2'; write it as float32, float64, uint8, "
                        "bool or a signed integer, as array.astype('float32')"));
  EXPECT_THAT(ErrorOf(Npy("<f4", "(1, 1)", "abcd", "True")),
              HasSubstr("has Fortran's order of axes; write it as numpy.ascontiguousarray(array)"));
  EXPECT_THAT(ErrorOf(Npy("<f4", "()", "abcd")), HasSubstr("is a single number"));
  EXPECT_THAT(ErrorOf(Npy("<f4", "(0, 2)", "")), HasSubstr("holds no samples"));
  EXPECT_THAT(ErrorOf("text"), HasSubstr("is no NPY file"));
}

TEST_F(NpyFileTest, TheSizeMustBeThatOfTheShape) {
  const std::string whole = Npy("<f4", "(2, 1)", "abcdefgh");
  EXPECT_THAT(ErrorOf(whole + "i"), HasSubstr("has 9 bytes of elements, but the shape asks for 8"));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(ErrorOf(whole.substr(0, size)), "");
  EXPECT_THAT(ErrorOf(Npy("<f4", "(4611686018427387904, 4611686018427387904)", "")),
              HasSubstr("asks for more than a file can have"));
}

TEST_F(NpyFileTest, ASetHasLabelsOrTargetsForEachSample) {
  const std::string inputs = Write(Npy("|u1", "(2, 1, 2)", "\1\2\3\4"), "x.npy");
  const std::string labels = Write(Npy("<i4", "(2,)", Number(7, 4) + Number(0, 4)), "y.npy");
  const auto set = ReadArraySet({.inputs = inputs, .labels = labels});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->inputs.shape(), (model::Shape{1, 1, 2}));
  EXPECT_EQ(set->labels.classes(), 8);
  EXPECT_EQ(ReadArraySet({.inputs = inputs, .targets = labels})->targets->size(), 2);
  const std::string more = Write(Npy("|u1", "(3,)", "\1\2\3"), "z.npy");
  EXPECT_EQ(ReadArraySet({.inputs = inputs, .labels = more}).status().message(),
            inputs + " has 2 samples, but " + more + " has 3");
}

}  // namespace
}  // namespace dp::data
