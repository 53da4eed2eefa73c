#include "base/program/hidden_argument.h"

#include <cstring>

#include "absl/strings/strip.h"

namespace dp {

std::vector<std::string> TakeArguments(int argc, char** argv, absl::string_view flag) {
  std::vector<std::string> words(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    absl::string_view rest = words[i];
    char* secret = nullptr;
    if (words[i - 1] == flag) secret = argv[i];
    if (absl::ConsumePrefix(&rest, flag) && absl::ConsumePrefix(&rest, "=")) {
      secret = argv[i] + (words[i].size() - rest.size());
    }
    if (secret != nullptr) std::memset(secret, '*', std::strlen(secret));
  }
  return words;
}

}  // namespace dp
