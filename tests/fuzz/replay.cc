// Runs fuzz targets without a fuzzer: on their initial inputs, and on mutations of these.
//
//   X_replay NAME --corpus=DIRECTORY [--seed=N] [--rounds=N]
//
// The directory may be missing. Prints its seed, which differs from run to run. DP_FUZZ_SEED=N is
// the same as --seed=N, as in `DP_FUZZ_SEED=42 ctest -R fuzz`.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/random.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz {

#define DP_FUZZ_TARGET(name)         \
  namespace name {                   \
  void Run(absl::string_view input); \
  std::vector<std::string> Seeds();  \
  }
#include DP_FUZZ_TARGETS
#undef DP_FUZZ_TARGET

namespace {

struct Target {
  absl::string_view name;
  void (*run)(absl::string_view input);
  std::vector<std::string> (*seeds)();
};

constexpr Target kTargets[] = {
#define DP_FUZZ_TARGET(name) {#name, name::Run, name::Seeds},
#include DP_FUZZ_TARGETS
#undef DP_FUZZ_TARGET
};

std::vector<std::string> InputsOf(const Target& target, const std::string& corpus) {
  std::vector<std::string> inputs = target.seeds();
  std::set<std::filesystem::path> files;  // in an order that does not depend on the file system
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(corpus, missing)) {
    files.insert(entry.path());
  }
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (inputs.empty()) inputs.emplace_back();
  return inputs;
}

void Mutate(uint64_t& random, std::string* input) {
  const uint64_t changes = 1 + NextRandom(random) % 8;
  for (uint64_t i = 0; i < changes && !input->empty(); ++i) {
    const size_t at = NextRandom(random) % input->size();
    switch (NextRandom(random) % 4) {
      case 0:
        (*input)[at] = static_cast<char>(NextRandom(random));
        break;
      case 1:
        (*input)[at] ^= static_cast<char>(1 << NextRandom(random) % 8);
        break;
      case 2:
        input->erase(at, 1 + NextRandom(random) % 9);
        break;
      default:
        input->insert(at, input->substr(NextRandom(random) % input->size(), 64));
    }
  }
}

void Replay(const Target& target, const std::string& corpus, uint64_t seed, int rounds) {
  std::printf("seed=%llu, which DP_FUZZ_SEED gives again\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // a failing input may end the process
  const std::vector<std::string> inputs = InputsOf(target, corpus);
  for (const std::string& input : inputs) target.run(input);
  uint64_t random = seed;
  for (int round = 0; round < rounds; ++round) {
    std::string input = inputs[NextRandom(random) % inputs.size()];
    Mutate(random, &input);
    target.run(input);
  }
}

uint64_t Seed() {
  const char* given = std::getenv("DP_FUZZ_SEED");
  return given == nullptr ? EntropySeed() : std::strtoull(given, nullptr, 10);
}

int Main(int argc, char** argv) {
  uint64_t seed = Seed();
  int rounds = 20000;
  std::string name, corpus;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--corpus=")) {
      corpus = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--seed=")) {
      (void)absl::SimpleAtoi(argument, &seed);
    } else if (absl::ConsumePrefix(&argument, "--rounds=")) {
      (void)absl::SimpleAtoi(argument, &rounds);
    } else {
      name = std::string(argument);
    }
  }
  for (const Target& target : kTargets) {
    if (target.name != name) continue;
    Replay(target, corpus, seed, rounds);
    return 0;
  }
  std::fprintf(stderr, "there is no fuzz target '%s'\n", name.c_str());
  return 2;
}

}  // namespace
}  // namespace dp::fuzz

int main(int argc, char** argv) { return dp::fuzz::Main(argc, argv); }
