#include "worker/library/ddp/module_check.h"

#include <cmath>
#include <cstdint>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/library/in_engine.h"
#include "worker/library/memory/overlap.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;
using distributed::MutableElements;

// More have a number of bytes that overflows.
constexpr size_t kElementsMax = size_t{1} << 59;

[[noreturn]] void RejectArgument(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, absl::StrCat("DistributedDataParallel: ", why));
}

std::string TypeName(distributed::DataType type) {
  return std::string(engine::NameOf(TypeInEngine(type)));
}

std::string ShapeName(const std::vector<int64_t>& shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

// `what` is "parameter fc1.weight".
void CheckShape(const std::string& what, const std::vector<int64_t>& shape,
                const MutableElements& values) {
  if (values.data == nullptr && values.count > 0)
    RejectArgument(absl::StrCat(what, " has null for its memory; give it memory"));
  size_t count = 1;
  for (const int64_t axis : shape) {
    if (axis < 0)
      RejectArgument(
          absl::StrCat(what, " has the shape ", ShapeName(shape), "; no axis is negative"));
    if (axis > 0 && count > kElementsMax / static_cast<size_t>(axis))
      RejectArgument(absl::StrCat(what, " has the shape ", ShapeName(shape),
                                  ", which is more than ", kElementsMax, " elements"));
    count *= static_cast<size_t>(axis);
  }
  if (count != values.count) {
    RejectArgument(absl::StrCat(what, " has the shape ", ShapeName(shape), ", which is ", count,
                                " elements, and ", values.count, " values; make them equal"));
  }
}

void CheckGradient(const std::string& what, const MutableElements& values,
                   const MutableElements& gradient) {
  if (gradient.data == nullptr && gradient.count > 0)
    RejectArgument(absl::StrCat("the gradient of ", what,
                                " has null for its memory; give it memory, "
                                "or leave it out and take what move_gradient offers"));
  if (Overlap(gradient, values))
    RejectArgument(absl::StrCat("the gradient of ", what,
                                " lies in the memory of its values; give it memory of its own"));
  if (gradient.count == values.count && gradient.type == values.type) return;
  RejectArgument(absl::StrCat(what, " is ", values.count, " ", TypeName(values.type),
                              ", and its gradient is ", gradient.count, " ",
                              TypeName(gradient.type), "; make them equal"));
}

void CheckName(std::set<std::string>& names, const std::string& name, const std::string& what) {
  if (name.empty()) RejectArgument(absl::StrCat(what, "has no name; give it one"));
  if (!names.insert(name).second)
    RejectArgument(absl::StrCat("two of the module's values are named ", name,
                                "; give each a name of its own"));
}

void CheckDeviceOfRank(const std::string& device, std::optional<int> gpu) {
  const std::string own = gpu ? absl::StrCat("cuda:", *gpu) : "cpu";
  if (device == own || (gpu ? device == "cuda" : absl::StartsWith(device, "cpu:"))) return;
  RejectArgument(absl::StrCat("device ", device, " is not that of the group, whose backend ",
                              gpu ? "is" : "is not", " nccl; give ", own));
}

template <typename Value>
std::string LinesOf(const std::vector<Value>& values) {
  std::string lines;
  for (const Value& value : values)
    absl::StrAppend(&lines, value.name, " ", ShapeName(value.shape), " ",
                    TypeName(value.values.type), "\n");
  return lines;
}

}  // namespace

void CheckModule(const std::vector<distributed::Parameter>& parameters,
                 const std::vector<distributed::Buffer>& buffers) {
  std::set<std::string> names;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const distributed::Parameter& parameter = parameters[i];
    CheckName(names, parameter.name, absl::StrCat("parameter ", i, " "));
    const std::string what = absl::StrCat("parameter ", parameter.name);
    CheckShape(what, parameter.shape, parameter.values);
    if (!engine::IsFloat(TypeInEngine(parameter.values.type)))
      RejectArgument(absl::StrCat(what, " is of ", TypeName(parameter.values.type),
                                  "; make it a buffer, since only floats have gradients"));
    if (parameter.gradient) CheckGradient(what, parameter.values, *parameter.gradient);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    CheckName(names, buffers[i].name, absl::StrCat("buffer ", i, " "));
    CheckShape(absl::StrCat("buffer ", buffers[i].name), buffers[i].shape, buffers[i].values);
  }
}

void CheckOptions(const distributed::DistributedDataParallelOptions& options,
                  std::optional<int> gpu) {
  if (options.device_ids.size() > 1) {
    RejectArgument(absl::StrCat("device_ids names ", options.device_ids.size(), " devices (",
                                absl::StrJoin(options.device_ids, ", "),
                                "); a rank has one, so start one process for each"));
  }
  std::vector<std::string> devices = options.device_ids;
  if (!options.output_device.empty()) devices.push_back(options.output_device);
  for (const std::string& device : devices) CheckDeviceOfRank(device, gpu);
  if (!(options.bucket_cap_mb > 0) || !std::isfinite(options.bucket_cap_mb))
    RejectArgument(absl::StrCat("bucket_cap_mb is ", options.bucket_cap_mb, "; give more than 0"));
  if (options.reduce_type && !engine::IsFloat(TypeInEngine(*options.reduce_type)))
    RejectArgument(
        absl::StrCat("reduce_type is ", TypeName(*options.reduce_type), "; give a float"));
}

std::string Describe(const std::vector<distributed::Parameter>& parameters) {
  return LinesOf(parameters);
}

std::string Describe(const std::vector<distributed::Buffer>& buffers) { return LinesOf(buffers); }

std::string Describe(const distributed::DistributedDataParallelOptions& options) {
  const auto word = [](bool flag) { return flag ? "true" : "false"; };
  return absl::StrCat(
      "bucket_cap_mb ", options.bucket_cap_mb, "\nbroadcast_buffers ",
      word(options.broadcast_buffers), "\nfind_unused_parameters ",
      word(options.find_unused_parameters), "\nstatic_graph ", word(options.static_graph),
      "\ncheck_reduction ", word(options.check_reduction), "\nreduce_type ",
      options.reduce_type ? TypeName(*options.reduce_type) : "that of the gradients", "\n");
}

std::vector<std::string> NamesOf(const std::vector<distributed::Parameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  return names;
}

std::vector<GradientSize> GradientSizesOf(const std::vector<distributed::Parameter>& parameters) {
  std::vector<GradientSize> sizes;
  for (const auto& parameter : parameters)
    sizes.push_back({parameter.values.count, TypeInEngine(parameter.values.type)});
  return sizes;
}

}  // namespace dp::library
