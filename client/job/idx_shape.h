#pragma once

#include <optional>
#include <string>

#include "base/model/shape.h"

namespace dp::client {

// Channels, rows and columns of one image in a directory's training set of IDX files. Read from the
// first bytes of train-images-idx3-ubyte, plain or with .gz. None if the file cannot be read or is
// something else; the trainer reports why.
std::optional<model::Shape> IdxSampleShape(const std::string& dir);

}  // namespace dp::client
