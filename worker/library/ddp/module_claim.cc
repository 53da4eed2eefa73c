#include "worker/library/ddp/module_claim.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "dp/errors.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;

struct Claims {
  Mutex mu;
  std::set<const void*> all DP_GUARDED_BY(mu);
};

Claims& TheClaims() {
  static auto* const claims = new Claims;  // objects may end during exit
  return *claims;
}

[[noreturn]] void RejectClaimed(const std::string& what) {
  throw DistError(ErrorKind::kWrongState,
                  absl::StrCat("DistributedDataParallel: ", what,
                               "; end that object before you make another one"));
}

}  // namespace

ModuleClaim::ModuleClaim(const distributed::Module& module,
                         const std::vector<distributed::Parameter>& parameters) {
  Claims& claims = TheClaims();
  MutexLock lock(claims.mu);
  if (claims.all.count(&module) > 0)
    RejectClaimed("another DistributedDataParallel wraps the module");
  for (const distributed::Parameter& parameter : parameters) {
    const distributed::MutableElements& values = parameter.values;
    if (values.bytes == 0 || claims.all.count(values.data) == 0) continue;
    RejectClaimed(absl::StrCat("the gradient of parameter ", parameter.name,
                               " lies in the memory of another DistributedDataParallel"));
  }
  claims.all.insert(&module);
  claimed_.insert(&module);
}

ModuleClaim::~ModuleClaim() {
  Claims& claims = TheClaims();
  MutexLock lock(claims.mu);
  for (const void* each : claimed_) claims.all.erase(each);
}

void ModuleClaim::AddGradient(const distributed::Parameter& parameter) {
  if (parameter.values.bytes == 0) return;  // may share its address
  Claims& claims = TheClaims();
  MutexLock lock(claims.mu);
  if (claims.all.insert(parameter.values.data).second) claimed_.insert(parameter.values.data);
}

}  // namespace dp::library
