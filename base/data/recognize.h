#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::data {

enum class Format {
  kIdxDirectory,
  kCifar10,
  kCifar100,
  kImageFolder,
  kIdxFile,
  kNpyFile,
  kNpzFile,
  kCsvFile,
  kTokenFile,  // 16-bit tokens with llm.c's header, or a file that ends in .bin
  kText,       // any other file
};

// The name that people use: "IDX files", "CSV".
const char* NameOf(Format format);

// Recognizes a directory by the names of its files, and a file by its first bytes.
// Errors: the system's if it cannot be read; InvalidArgument a directory of unknown contents.
absl::StatusOr<Format> Recognize(const std::string& path);

}  // namespace dp::data
