#pragma once

#include <functional>
#include <optional>
#include <string>

#include "dp/errors.h"
#include "gtest/gtest.h"

namespace dp::library {

// The DistError that `call` throws; a failure of the test if it throws none.
inline distributed::DistError ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const distributed::DistError& error) {
    return error;
  }
  ADD_FAILURE() << "no DistError";
  return {distributed::ErrorKind::kInternal, "(nothing thrown)"};
}

}  // namespace dp::library
