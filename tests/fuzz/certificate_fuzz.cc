// Certificates, keys, signing requests and directories of credentials, from files, callers and
// servers. A malformed text is an error. Nobody is asked for a password, and nothing crashes. A
// certificate that somebody changed has no signature. An authority gives out what it was asked to
// give, and nothing that the request asks for. OpenSSL's list of errors is empty afterwards,
// because TLS connections of the same thread would take it for theirs.
//
// The first byte chooses the parser.

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/security/certificate.h"
#include "base/security/certificate_authority.h"
#include "base/security/credential.h"
#include "base/testing/scratch_dir.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::certificate {
namespace {

using namespace dp::security;

const absl::Time kNow = absl::FromUnixSeconds(1'764'228'000);
const Identity kAnn{Role::kUser, "ann"};

const CertificateAuthority& Authority() {
  static const auto& authority = *new CertificateAuthority(CertificateAuthority::Make(kNow));
  return authority;
}
const KeyPair& Key() {
  static const auto& key = *new KeyPair(KeyPair::Make());
  return key;
}
const Certificate& OfAnn() {
  static const auto& issued = *new Certificate(*Authority().Issue(
      Key().SigningRequest(), {.identity = kAnn, .lifetime = absl::Hours(1)}, kNow));
  return issued;
}

std::string ToPem(absl::string_view kind, absl::string_view der) {
  return absl::StrCat("-----BEGIN ", kind, "-----\n", absl::Base64Escape(der), "\n-----END ", kind,
                      "-----\n");
}

std::string ToDer(absl::string_view pem) {
  absl::string_view rest = pem;
  std::string base64;
  while (!rest.empty()) {
    const absl::string_view line = TakePart(&rest, '\n');
    if (line.empty() || line.front() != '-') absl::StrAppend(&base64, line);
  }
  std::string der;
  DP_CHECK(absl::Base64Unescape(base64, &der));
  return der;
}

void CheckCertificate(const std::string& pem) {
  const auto parsed = Certificate::FromPem(pem);
  if (!parsed.ok()) return;
  (void)parsed->not_before();
  (void)parsed->subject();
  (void)parsed->Fits(Key());
  const auto identity = parsed->identity();
  if (identity.ok()) DP_CHECK(!identity->name.empty());
  if (parsed->IsSignedBy(Authority().certificate())) {
    // Only two certificates are, in whatever encoding: the authority's own, and that of ann.
    const bool own = X509_check_ca(parsed->get()) == 1;
    ERR_clear_error();
    DP_CHECK(own ? !identity.ok() : identity.ok() && *identity == kAnn);
    DP_CHECK(parsed->not_after() == (own ? Authority().certificate() : OfAnn()).not_after());
  }
  const auto again = Certificate::FromPem(parsed->ToPem());
  DP_CHECK(again.ok() && again->Fingerprint() == parsed->Fingerprint());
}

void CheckKey(const std::string& pem) {
  const auto key = KeyPair::FromPem(pem);
  if (!key.ok()) return;
  const auto again = KeyPair::FromPem(key->ToPem());
  DP_CHECK(again.ok() && EVP_PKEY_eq(again->get(), key->get()) == 1);
  ERR_clear_error();  // of kinds of keys that cannot be compared
}

void CheckIssued(const std::string& request, const Grant& grant) {
  const auto issued = Authority().Issue(request, grant, kNow);
  if (!issued.ok()) return;
  DP_CHECK(issued->IsSignedBy(Authority().certificate()));
  DP_CHECK(issued->identity().ok() && *issued->identity() == grant.identity);
  DP_CHECK(issued->not_after() == kNow + grant.lifetime);
  DP_CHECK(X509_check_ca(issued->get()) == 0);
}

void CheckRequest(const std::string& pem) {
  CheckIssued(pem, {.identity = kAnn, .lifetime = absl::Hours(1)});
}

// Any name, at any host.
void CheckName(absl::string_view input) {
  const std::string host(TakePart(&input, '\n'));
  if (input.empty()) return;
  Grant grant{.identity = {Role::kUser, std::string(input)}, .lifetime = absl::Hours(1)};
  if (!host.empty()) grant.hosts = {host};
  CheckIssued(Key().SigningRequest(), grant);
}

// A certificate, a zero byte, its key.
void CheckAuthority(absl::string_view input) {
  const std::string certificate(TakePart(&input, '\0'));
  const auto parsed = CertificateAuthority::FromPem(certificate, std::string(input));
  if (parsed.ok()) DP_CHECK(parsed->certificate().Fits(parsed->key()));
}

// The four files of a directory, with zero bytes between them.
void CheckDirectory(absl::string_view input) {
  static const ScratchDir& dir = *new ScratchDir();
  std::vector<std::string> contents;
  for (const char* name : {kAuthoritiesFile, kChainFile, kKeyFile, kTokenFile}) {
    contents.emplace_back(TakePart(&input, '\0'));
    std::filesystem::remove(dir.path() / name);
    if (!contents.back().empty()) {
      std::ofstream(dir.path() / name, std::ios::binary) << contents.back();
    }
  }
  const auto read = ReadCredential(dir.path());
  const bool complete = !contents[0].empty() && contents[1].empty() == contents[2].empty();
  DP_CHECK(read.ok() == complete);
  if (!complete) return;
  DP_CHECK(read->authorities == contents[0] && read->chain == contents[1]);
  DP_CHECK(read->key == contents[2] && read->token == contents[3]);
}

}  // namespace

void Run(absl::string_view input) {
  const std::string zero(1, '\0');
  switch (TakeChoice(&input) % 9) {
    case 0:
      CheckCertificate(std::string(input));
      break;
    case 1:
      CheckCertificate(ToPem("CERTIFICATE", input));
      break;
    case 2:
      CheckKey(std::string(input));
      break;
    case 3:
      CheckKey(ToPem("PRIVATE KEY", input));
      break;
    case 4:
      CheckRequest(std::string(input));
      break;
    case 5:
      CheckRequest(ToPem("CERTIFICATE REQUEST", input));
      break;
    case 6:
      CheckName(input);
      break;
    case 7:
      CheckAuthority(input);
      break;
    default:
      CheckDirectory(input);
  }
  DP_CHECK(ERR_peek_error() == 0);
}

std::vector<std::string> Seeds() {
  const std::string zero(1, '\0');
  const std::string pem = OfAnn().ToPem(), key = Key().ToPem(), request = Key().SigningRequest();
  const std::string own = Authority().certificate().ToPem();
  return {Chosen(0, pem),
          Chosen(1, ToDer(pem)),
          Chosen(1, ToDer(own)),
          Chosen(2, key),
          Chosen(3, ToDer(key)),
          Chosen(4, request),
          Chosen(5, ToDer(request)),
          Chosen(6, "10.0.0.1\nann"),
          Chosen(6, "node7.example.org\nann@example.org"),
          Chosen(7, absl::StrCat(own, zero, Authority().key().ToPem())),
          Chosen(8, absl::StrCat(own, zero, pem, zero, key, zero)),
          Chosen(8, absl::StrCat(own, zero, zero, zero, "dpr1.Ny8zLzEvMA.AAAA"))};
}

}  // namespace dp::fuzz::certificate
