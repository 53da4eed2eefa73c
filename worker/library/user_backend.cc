#include "worker/library/user_backend.h"

#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status.h"
#include "dp/errors.h"
#include "worker/engine/collectives/exchange/exchange_group.h"
#include "worker/library/backend.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::BackendFactory;
using distributed::DistError;
using distributed::ErrorKind;

struct RegisteredBackends {
  Mutex mu;
  std::map<std::string, BackendFactory> factories DP_GUARDED_BY(mu);  // by name
};

RegisteredBackends& TheBackends() {
  static auto* const backends = new RegisteredBackends;  // groups may be joined during exit
  return *backends;
}

// The error of an operation whose backend threw.
absl::Status StatusOf(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const DistError*>(&thrown)) return StatusOfDistError(*error);
  return absl::DataLossError(thrown.what());
}

class UserExchanger : public engine::Exchanger {
 public:
  explicit UserExchanger(std::unique_ptr<distributed::Backend> backend)
      : backend_(std::move(backend)) {}

  absl::Status Exchange(const Sent& sent, const Received& received) override {
    std::vector<std::span<const std::byte>> out;
    std::vector<std::span<std::byte>> in;
    for (const auto& piece : sent)
      out.push_back(std::as_bytes(std::span(piece.data(), piece.size())));
    for (const auto& piece : received)
      in.push_back(std::as_writable_bytes(std::span(piece.data(), piece.size())));
    return Caught([&] { backend_->exchange(out, in); });
  }

  std::optional<absl::Status> Run(const engine::Collective& call) override {
    const engine::CallShape& shape = call.shape;
    if (shape.kind != engine::CallShape::Kind::kAllReduce) return std::nullopt;
    bool done = false;
    absl::Status status = Caught([&] {
      done = backend_->all_reduce(call.output.data(), shape.count, TypeOutside(shape.type),
                                  OpOutside(shape.op));
    });
    if (!status.ok() || done) return status;
    return std::nullopt;
  }

  void Interrupt() override { backend_->abort(); }

 private:
  template <typename Body>
  static absl::Status Caught(const Body& body) {
    try {
      body();
      return absl::OkStatus();
    } catch (const std::exception& thrown) {
      return StatusOf(thrown);
    } catch (...) {
      return absl::DataLossError(
          absl::StrCat("the backend threw ", kUnknownException, kThrowAnother));
    }
  }

  const std::unique_ptr<distributed::Backend> backend_;
};

BackendFactory FactoryOf(absl::string_view name) {
  RegisteredBackends& backends = TheBackends();
  MutexLock lock(backends.mu);
  return backends.factories.at(std::string(name));
}

}  // namespace

bool IsRegistered(absl::string_view name) {
  RegisteredBackends& backends = TheBackends();
  MutexLock lock(backends.mu);
  return backends.factories.count(std::string(name)) > 0;
}

absl::StatusOr<std::unique_ptr<engine::Group>> JoinByUserBackend(
    absl::string_view name, const distributed::BackendPlace& place) {
  const std::string factory = absl::StrCat("the factory of backend ", name);
  auto backend = CallProgram(factory, [&] { return FactoryOf(name)(place); });
  if (backend == nullptr)
    throw DistError(ErrorKind::kProgramFailed,
                    absl::StrCat(factory,
                                 " returned no backend; return one, or throw a std::exception "
                                 "that says why there is none"));
  return engine::ConnectExchange(std::make_unique<UserExchanger>(std::move(backend)), place.rank,
                                 place.world_size, {.timeout = absl::FromChrono(place.timeout)});
}

}  // namespace dp::library

namespace dp::distributed {

void register_backend(std::string_view name, BackendFactory factory) {
  const std::string lower = absl::AsciiStrToLower({name.data(), name.size()});
  if (!factory)
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat("backend '", lower, "' has no factory; give a function"));
  if (lower.empty() || library::IsReserved(lower)) {
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat("backend '", lower, "' cannot be registered; give it a name that ",
                                 "is not one of dp's own"));
  }
  library::RegisteredBackends& backends = library::TheBackends();
  MutexLock lock(backends.mu);
  if (!backends.factories.emplace(lower, std::move(factory)).second)
    throw DistError(ErrorKind::kWrongState,
                    absl::StrCat("backend '", lower, "' is registered already"));
}

bool is_backend_available(std::string_view name) {
  return library::BackendNamed({name.data(), name.size()}).ok();
}

}  // namespace dp::distributed
