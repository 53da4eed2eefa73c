// Runs a fuzz target without a fuzzer, on requests of real clients and on mutations of these.
//
//   x_replay [--seed=N] [--rounds=N]    prints its seed, which differs from run to run
//   x_replay --write=DIRECTORY          writes its initial inputs, as a corpus for libFuzzer
//
// DP_FUZZ_SEED=N is the same as --seed=N, as in `DP_FUZZ_SEED=42 ctest -R fuzz`.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dp::fuzz {
namespace {

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::vector<std::string> Inputs() {
  std::vector<std::string> inputs = WireSeeds();
  const size_t plain = inputs.size();
  // For the server: the same inputs as pieces of two clients, in turns.
  for (size_t i = 0; i < plain; ++i) {
    std::string pieces;
    for (size_t at = 0; at < inputs[i].size(); at += 40) {
      const std::string piece = inputs[i].substr(at, 40);
      for (const char who : {'\0', '\1'})
        absl::StrAppend(&pieces, std::string(1, who),
                        std::string(1, static_cast<char>(piece.size())), piece);
    }
    inputs.push_back(pieces);
  }
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

void Write(const std::string& directory) {
  int number = 0;
  for (const std::string& input : Inputs())
    std::ofstream(absl::StrCat(directory, "/seed-", number++), std::ios::binary) << input;
}

uint64_t Seed() {
  const char* given = std::getenv("DP_FUZZ_SEED");
  return given == nullptr ? EntropySeed() : std::strtoull(given, nullptr, 10);
}

void Replay(uint64_t seed, int rounds) {
  std::printf("seed=%llu, which DP_FUZZ_SEED gives again\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // a failing input may end the process
  const std::vector<std::string> inputs = Inputs();
  for (const std::string& input : inputs) Run(input);
  uint64_t random = seed;
  for (int round = 0; round < rounds; ++round) {
    std::string input = inputs[NextRandom(random) % inputs.size()];
    Mutate(random, &input);
    Run(input);
  }
}

}  // namespace
}  // namespace dp::fuzz

int main(int argc, char** argv) {
  uint64_t seed = dp::fuzz::Seed();
  int rounds = 20000;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    const std::string value(argument.substr(argument.find('=') + 1));
    if (absl::StartsWith(argument, "--write=")) {
      dp::fuzz::Write(value);
      return 0;
    }
    if (absl::StartsWith(argument, "--seed=")) seed = std::strtoull(value.c_str(), nullptr, 10);
    if (absl::StartsWith(argument, "--rounds=")) rounds = std::atoi(value.c_str());
  }
  dp::fuzz::Replay(seed, rounds);
}
