#include "client/dpctl/view/parameters_view.h"

#include <map>

#include "client/dpctl/view/time_text.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

void WriteTensor(const v1::ParameterTensor& tensor, JsonWriter& json) {
  json.BeginObject();
  json.Field("name", tensor.name());
  json.Field("type", tensor.type());
  json.Key("shape");
  json.BeginArray();
  for (const int64_t extent : tensor.shape()) json.Int(extent);
  json.EndArray();
  json.Field("bytes", uint64_t{tensor.bytes()});
  json.EndObject();
}

void WriteTensors(const v1::ParameterVersion& version, JsonWriter& json) {
  json.Key("tensors");
  json.BeginArray();
  for (const v1::ParameterTensor& tensor : version.tensors()) WriteTensor(tensor, json);
  json.EndArray();
  json.Key("metadata");
  json.BeginObject();
  // In the order of their names.
  for (const auto& [name, text] : std::map(version.metadata().begin(), version.metadata().end())) {
    json.Field(name, text);
  }
  json.EndObject();
}

}  // namespace

void WriteVersion(const v1::ParameterVersion& version, JsonWriter& json) {
  json.BeginObject();
  json.Key("job");
  version.job() == 0 ? json.Null() : json.UInt(version.job());
  json.TextOrNull("name", version.name());
  json.Field("version", uint64_t{version.version()});
  json.Field("step", int64_t{version.step()});
  json.Key("generation");
  version.generation() == 0 ? json.Null() : json.UInt(version.generation());
  json.TextOrNull("owner", version.owner());
  WriteTime("at", FromProto(version.at()), json);
  json.Field("bytes", uint64_t{version.bytes()});
  json.Field("tensorCount", uint64_t{version.tensor_count()});
  if (version.tensors_size() > 0 || !version.metadata().empty()) {
    WriteTensors(version, json);
  } else {
    json.NullField("tensors");
    json.NullField("metadata");
  }
  json.EndObject();
}

}  // namespace dp::ctl
