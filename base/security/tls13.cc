#include "base/security/tls13.h"

#include <openssl/conf.h>
#include <openssl/crypto.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/security/openssl.h"

namespace dp::security {
namespace {

// OpenSSL applies "system_default" to every context that is made later (config(5)). gRPC sets the
// lowest version of its contexts afterwards, so this excludes the versions one by one. No client of
// dp resumes a session by a ticket, and two tickets are a tenth of what a join costs the server.
constexpr char kSettings[] =
    "dp = dp_settings\n"
    "[dp_settings]\n"
    "ssl_conf = dp_ssl\n"
    "[dp_ssl]\n"
    "system_default = dp_tls\n"
    "[dp_tls]\n"
    "Protocol = -ALL,TLSv1.3\n"
    "NumTickets = 0\n";

}  // namespace

absl::Status RequireTls13() {
  // The system's own settings would otherwise be read later, and replace these.
  OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr);
  const std::unique_ptr<CONF, Free<NCONF_free>> settings(NCONF_new(nullptr));
  long line = 0;  // NOLINT: OpenSSL's type
  if (NCONF_load_bio(settings.get(), Reading(kSettings).get(), &line) == 1 &&
      CONF_modules_load(settings.get(), "dp", 0) == 1) {
    return absl::OkStatus();
  }
  return absl::InternalError(InvalidBecause("TLS 1.3 cannot be required").message());
}

}  // namespace dp::security
