// Runs one target under libFuzzer (DP_FUZZ_TARGET is its name).
//
//   NAME_fuzz --write=DIRECTORY    writes the target's initial inputs, and ends
//   NAME_fuzz ...                  as libFuzzer has it

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz {

namespace DP_FUZZ_TARGET {
void Run(absl::string_view input);
std::vector<std::string> Seeds();
}  // namespace DP_FUZZ_TARGET

}  // namespace dp::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  absl::string_view first = *argc > 1 ? (*argv)[1] : "";
  if (!absl::ConsumePrefix(&first, "--write=")) return 0;
  int number = 0;
  for (const std::string& seed : dp::fuzz::DP_FUZZ_TARGET::Seeds()) {
    std::ofstream(absl::StrCat(first, "/seed-", number++), std::ios::binary) << seed;
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dp::fuzz::DP_FUZZ_TARGET::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
