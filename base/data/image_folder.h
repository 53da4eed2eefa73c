#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"

namespace dp::data {

// Files of images, each in the folder of its class.
struct ImageFolder {
  std::vector<std::string> classes;  // names, in ascending order
  std::vector<std::string> files;    // paths; class after class, in ascending order
  std::vector<int32_t> labels;       // of each file
};

// Lists DIR/train/CLASS, or for the test DIR/test/CLASS or DIR/val/CLASS, in the order of
// torchvision's ImageFolder. Images end in .png, .jpg or .jpeg, in any case, and may lie in folders
// below their class. Other files that are no images are left out. The test may lack classes.
// Errors: NotFound names the directory; InvalidArgument a class without images, a class that only
// the test has, or an image of another format.
absl::StatusOr<ImageFolder> ListImageFolder(const std::string& dir, Split split);

// The names of the classes for training, in ascending order. Errors: as ListImageFolder.
absl::StatusOr<std::vector<std::string>> ListClasses(const std::string& dir);

// The remedy where folders of images lie in `dir` itself and not in its folder train; empty
// elsewhere.
std::string LooseClassesRemedy(const std::string& dir);

// Whether DIR has a folder of this part.
bool HasImageFolder(const std::string& dir, Split split);

}  // namespace dp::data
