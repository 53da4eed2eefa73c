#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dp::scenarios {

// One line of a script: words, and key=value options (a value may be in double quotes).
struct Line {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  static Line Parse(absl::string_view text);
  const std::string& word(size_t index) const { return words.at(index); }
  std::string option(const std::string& key, const std::string& otherwise) const;
  int number(const std::string& key, int otherwise) const;
};

}  // namespace dp::scenarios
