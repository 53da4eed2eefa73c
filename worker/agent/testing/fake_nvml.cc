// Stands for NVIDIA's libnvidia-ml.so.1: a host with one GPU, "GPU-aaaa", number 0 on the bus. The
// file that FAKE_NVML names holds the bytes of its memory that are in use; where it holds no
// number, the GPU is lost.

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

constexpr int kInvalidArgument = 2;
constexpr int kNotFound = 6;
constexpr int kGpuIsLost = 15;

struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // NOLINT: as NVML declares them
};

int the_device;

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

const char* nvmlErrorString(int result) {
  return result == kNotFound ? "Not Found" : result == kGpuIsLost ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &the_device;
  return std::strcmp(uuid, "GPU-aaaa") == 0 ? 0 : kNotFound;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = &the_device;
  return index == 0 ? 0 : kNotFound;
}

int nvmlDeviceGetMemoryInfo(void*, void*) { return kInvalidArgument; }  // no longer for this driver

int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* memory) {
  if (device != &the_device || memory->version != (sizeof(MemoryV2) | (2u << 24))) {
    return kInvalidArgument;
  }
  std::ifstream file(std::getenv("FAKE_NVML"));
  return file >> memory->used ? 0 : kGpuIsLost;
}

}  // extern "C"
