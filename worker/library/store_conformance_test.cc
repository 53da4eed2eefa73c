#include "worker/library/testing/public_store_conformance.h"

#include <string>

#include "base/testing/scratch_dir.h"
#include "dp/store.h"

namespace dp::distributed {
namespace {

Store OpenHash() { return HashStore(); }

Store OpenInFile() {
  static ScratchDir scratch;
  static int number = 0;
  return FileStore(scratch.path() / std::to_string(++number), 1);
}

Store OpenServed() { return TcpStore({.host = "127.0.0.1", .is_master = true}); }

INSTANTIATE_TEST_SUITE_P(
    , PublicStoreConformance,
    ::testing::Values(
        PublicStore{"Hash", OpenHash}, PublicStore{"File", OpenInFile},
        PublicStore{"Tcp", OpenServed},
        PublicStore{"PrefixOfHash", []() -> Store { return PrefixStore("job", OpenHash()); }},
        PublicStore{"PrefixOfFile", []() -> Store { return PrefixStore("job", OpenInFile()); }},
        PublicStore{"PrefixOfTcp", []() -> Store { return PrefixStore("job", OpenServed()); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dp::distributed
