#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace dp::data {

// The files of a byte-level byte-pair encoding.
struct BpeFiles {
  std::string vocabulary;  // vocab.json
  std::string merges;      // merges.txt
};

// In GPT-2's order, the printable bytes come first.
inline std::vector<int> BpeByteOrder() {
  std::vector<int> printable, others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    (itself ? printable : others).push_back(byte);
  }
  printable.insert(printable.end(), others.begin(), others.end());
  return printable;
}

// The token of a byte in these files.
inline uint16_t BpeByteToken(unsigned char byte) {
  const std::vector<int> order = BpeByteOrder();
  for (size_t token = 0; token < order.size(); ++token) {
    if (order[token] == byte) return static_cast<uint16_t>(token);
  }
  return 0;
}

// The 256 bytes, then the results of the merges, as "h e".
inline BpeFiles BpeFilesWith(const std::vector<std::string>& merges) {
  std::vector<std::string> tokens;
  int next = 0x100;
  for (const int byte : BpeByteOrder()) {
    const bool itself = tokens.size() < 188;
    tokens.push_back(absl::StrCat("\\u", absl::Hex(itself ? byte : next++, absl::kZeroPad4)));
  }
  BpeFiles files{.vocabulary = "{", .merges = "#version: 0.2\n"};
  for (const std::string& merge : merges) {
    tokens.push_back(absl::StrReplaceAll(merge, {{" ", ""}}));
    absl::StrAppend(&files.merges, merge, "\n");
  }
  for (size_t token = 0; token < tokens.size(); ++token) {
    absl::StrAppend(&files.vocabulary, token == 0 ? "" : ", ", "\"", tokens[token], "\": ", token);
  }
  files.vocabulary += "}\n";
  return files;
}

}  // namespace dp::data
