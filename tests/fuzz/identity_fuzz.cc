// The files of a coordinator's identity, read at its start and every few seconds. They are the
// authorities of callers, lists of revoked certificates, certificates and keys from elsewhere, and
// the coordinator's own files. gRPC reads the file of authorities that is made from them. It reads
// up to the first text that it cannot read, and says nothing of the rest, so there must be none.
//
// The first byte chooses the file.

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/security/certificate.h"
#include "base/security/certificate_authority.h"
#include "base/security/openssl.h"
#include "base/testing/scratch_dir.h"
#include "server/program/identity_dir.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::identity {
namespace {

namespace fs = std::filesystem;
using security::Certificate;
using server::IdentityDir;
using server::IdentityOptions;

const absl::Time kNow = absl::FromUnixSeconds(1'764'228'000);

// The coordinator's own files, whose loss ends it, and those that it makes again.
constexpr const char* kKept[] = {"ca.crt", "ca.key", "token.key", "secret.key"};
constexpr const char* kMadeAgain[] = {"server/tls.crt", "server/tls.key", "server/hosts",
                                      "server/ca.crt",  "admin/tls.crt",  "admin/tls.key",
                                      "admin/ca.crt"};

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void Write(const fs::path& path, absl::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::string OtherAuthority() {
  static const auto& made =
      *new std::string(security::CertificateAuthority::Make(kNow).certificate().ToPem());
  return made;
}

// An identity that was made once, and the files from elsewhere.
class Identity {
 public:
  Identity() {
    fs::create_directories(lists());
    DP_CHECK(IdentityDir::Open(path(), {.hosts = {"node"}}, kNow).ok());
    good_ = path().string() + ".good";
    fs::copy(path(), good_, fs::copy_options::recursive);
  }
  absl::Status Open(IdentityOptions options) const {
    options.hosts = {"node"};
    return IdentityDir::Open(path(), options, kNow).status();
  }
  void Restore(const std::string& name) const {
    fs::copy_file(good_ / name, path() / name, fs::copy_options::overwrite_existing);
  }
  fs::path path() const { return dir_.path() / "identity"; }
  fs::path lists() const { return dir_.path() / "lists"; }
  fs::path other(const char* name) const { return dir_.path() / name; }
  fs::path clients() const { return path() / "server/ca.crt"; }
  std::string own() const { return Read(good_ / "ca.crt"); }

 private:
  const ScratchDir dir_;
  fs::path good_;
};

const Identity& Files() {
  static const auto& files = *new Identity();
  return files;
}

// The certificates that gRPC finds in the file of authorities.
std::vector<std::string> FoundByGrpc() {
  const std::string text = Read(Files().clients());
  const security::BioPtr bio = security::Reading(text);
  std::vector<std::string> found;
  while (X509* const one =
             PEM_read_bio_X509_AUX(bio.get(), nullptr, security::NoPassword, nullptr)) {
    const security::BioPtr written = security::Writing();
    DP_CHECK(PEM_write_bio_X509(written.get(), one) == 1);
    found.push_back(security::Written(written));
    X509_free(one);
  }
  // All was read.
  DP_CHECK(ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE);
  ERR_clear_error();
  return found;
}

void CheckClients(absl::string_view text) {
  const fs::path file = Files().other("clients.crt");
  Files().Restore("server/ca.crt");
  Write(file, text);
  const absl::Status opened = Files().Open({.clients_file = file});
  const std::vector<std::string> found = FoundByGrpc();
  DP_CHECK(!found.empty() && found[0] == Files().own());
  if (opened.ok()) {
    DP_CHECK(found.size() > 1 && absl::StrContains(text, "CERTIFICATE-----"));
    return;
  }
  DP_CHECK(absl::IsFailedPrecondition(opened));
  DP_CHECK(absl::StrContains(opened.message(), "--client-ca") && found.size() == 1);
}

// A name, a line break, what the list holds.
void CheckLists(absl::string_view input) {
  std::string name(TakePart(&input, '\n').substr(0, 255));
  for (char& byte : name) byte = byte == '\0' || byte == '/' ? '_' : byte;
  if (name.empty() || name == "." || name == "..") return;
  for (const auto& entry : fs::directory_iterator(Files().lists())) fs::remove(entry.path());
  DP_CHECK(Files().Open({.crl_dir = Files().lists()}).ok());
  const std::string without = Read(Files().clients());
  Write(Files().lists() / name, input);
  const absl::Status opened = Files().Open({.crl_dir = Files().lists()});
  DP_CHECK(opened.ok() || absl::IsFailedPrecondition(opened));
  // OpenSSL gets the copies.
  const auto copies = fs::directory_iterator(Files().path() / "server/lists");
  const bool copied = std::distance(begin(copies), end(copies)) > 0;
  DP_CHECK((Read(Files().clients()) != without) == copied);
  DP_CHECK(!copied ||
           !absl::StrContains(Read(Files().path() / "server/lists" / name), "CERTIFICATE-----"));
  DP_CHECK(FoundByGrpc() == std::vector<std::string>{Files().own()});
}

// A certificate, a zero byte, its key.
void CheckGiven(absl::string_view input) {
  const fs::path chain = Files().other("tls.crt"), key = Files().other("tls.key");
  Write(chain, TakePart(&input, '\0'));
  Write(key, input);
  fs::permissions(key, fs::perms(0600));
  const absl::Status opened = Files().Open({.chain_file = chain, .key_file = key});
  if (!opened.ok()) {
    DP_CHECK(absl::IsFailedPrecondition(opened) && absl::StrContains(opened.message(), "--tls-"));
    return;
  }
  const auto certificate = Certificate::FromPem(Read(chain));
  const auto pair = security::KeyPair::FromPem(Read(key));
  DP_CHECK(certificate.ok() && pair.ok() && certificate->Fits(*pair));
}

// A file that must not change on its own: damage is named, and nothing is written over it.
void CheckKept(absl::string_view input) {
  const std::string name = kKept[TakeChoice(&input) % std::size(kKept)];
  Write(Files().path() / name, input);
  const absl::Status opened = Files().Open({});
  DP_CHECK(Read(Files().path() / name) == input);
  if (!opened.ok()) {
    DP_CHECK(absl::IsFailedPrecondition(opened));
    DP_CHECK(absl::StrContains(opened.message(), name) || name == "ca.crt");
  }
  Files().Restore(name);
  for (const char* made : kMadeAgain) Files().Restore(made);
}

// A file that the coordinator makes: damage does not keep it from a start, nor from the next one.
void CheckMadeAgain(absl::string_view input) {
  const std::string name = kMadeAgain[TakeChoice(&input) % std::size(kMadeAgain)];
  Write(Files().path() / name, input);
  DP_CHECK(Files().Open({}).ok());
  DP_CHECK(FoundByGrpc() == std::vector<std::string>{Files().own()});
  const auto certificate = Certificate::FromPem(Read(Files().path() / "server/tls.crt"));
  const auto pair = security::KeyPair::FromPem(Read(Files().path() / "server/tls.key"));
  DP_CHECK(certificate.ok() && pair.ok() && certificate->Fits(*pair) && pair->IsWhole());
  for (const char* made : kMadeAgain) Files().Restore(made);
}

constexpr void (*kParsers[])(absl::string_view) = {CheckClients, CheckLists, CheckGiven, CheckKept,
                                                   CheckMadeAgain};

}  // namespace

void Run(absl::string_view input) {
  kParsers[TakeChoice(&input) % std::size(kParsers)](input);
  DP_CHECK(ERR_peek_error() == 0);
}

std::vector<std::string> Seeds() {
  const std::string zero(1, '\0');
  const std::string junk = "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n";
  const auto key = security::KeyPair::Make();
  return {Chosen(0, OtherAuthority()),
          Chosen(0, absl::StrCat("# ours\n", OtherAuthority(), "text\n", OtherAuthority())),
          Chosen(0, absl::StrCat(OtherAuthority(), junk, OtherAuthority())),
          Chosen(0, "none\n"),
          Chosen(1, "1a2b3c4d.r0\n-----BEGIN X509 CRL-----\nMA==\n-----END X509 CRL-----\n"),
          Chosen(1, "-----BEGIN CERTIFICATE-----\n"),
          Chosen(2, absl::StrCat(OtherAuthority(), zero, key.ToPem())),
          Chosen(3, absl::StrCat(std::string(1, '\0'), OtherAuthority())),
          Chosen(3, absl::StrCat("\x03", std::string(32, 's'))),
          Chosen(4, absl::StrCat(std::string(1, '\0'), OtherAuthority())),
          Chosen(4, absl::StrCat("\x01", key.ToPem())),
          Chosen(4, absl::StrCat("\x02", "node\nother\n"))};
}

}  // namespace dp::fuzz::identity
