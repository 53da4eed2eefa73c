#pragma once

#include <optional>
#include <string>

#include "base/model/shape.h"

namespace dp::client {

// Channels, rows and columns of one image in the training set of a directory of IDX files, from the
// first bytes of train-images-idx3-ubyte, plain or with .gz. None where it cannot be read or is
// something else: what is wrong with it, the trainer says.
std::optional<model::Shape> IdxSampleShape(const std::string& dir);

}  // namespace dp::client
