// A fake of NVIDIA's libcuda.so.1. It has FAKE_CUDA_DEVICES equal devices (default 1) of the model
// FAKE_CUDA_MODEL. If FAKE_CUDA_DEVICES is set but empty, the driver does not start. With
// FAKE_CUDA_PRINTS the driver prints, when it starts, the variable that it would read then.

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kInvalidDevice = 101;
constexpr int kUnknown = 999;

const char* Devices() {
  const char* devices = std::getenv("FAKE_CUDA_DEVICES");
  return devices == nullptr ? "1" : devices;
}

}  // namespace

extern "C" {

int cuInit(unsigned int) {
  const char* loading = std::getenv("CUDA_MODULE_LOADING");
  if (std::getenv("FAKE_CUDA_PRINTS") != nullptr) {
    std::printf("CUDA_MODULE_LOADING=%s\n", loading == nullptr ? "" : loading);
  }
  return *Devices() == '\0' ? kUnknown : 0;
}

int cuDriverGetVersion(int* version) {
  *version = 13010;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = std::atoi(Devices());
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = 40 + ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  if (device != 40) return kInvalidDevice;
  const char* model = std::getenv("FAKE_CUDA_MODEL");
  std::snprintf(name, static_cast<size_t>(size), "%s",
                model == nullptr ? "NVIDIA H100 80GB HBM3" : model);
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{81559} << 20;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return 0;
}

}  // extern "C"
