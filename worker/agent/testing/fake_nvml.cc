// Stands for NVIDIA's libnvidia-ml.so.1 on a host with one GPU, "GPU-aaaa", number 0 on the bus.
// The file that FAKE_NVML names holds the bytes of GPU memory in use, and then other figures:
// "1048576 temperature=40 errors=2 xid=79". Figures that are not there are not supported. If the
// file does not begin with a number, the GPU is lost; lost_at_start counts other lost GPUs. An Xid
// is an event: it is reported once, until the file has another. hang_at_load, hang_at_start and
// abort_at_start do to the loading process what a broken driver does.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kTimeout = 10;
constexpr int kGpuIsLost = 15;

struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // NOLINT: as NVML declares them
};

struct Utilisation {
  unsigned int gpu, memory;
};

struct XidEvent {
  void* device;
  unsigned long long type, xid;  // NOLINT: as NVML declares them
  unsigned int gpu_instance, compute_instance;
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

int the_device;
int the_events;
unsigned long told_xid = 0;  // NOLINT: as strtoul has it

// Reads the number behind "word="; kNotSupported if there is none.
template <typename Number>
int Say(const char* word, Number* number) {
  std::ifstream file(std::getenv("FAKE_NVML"));
  std::string each;
  if (!(file >> each) || each.find_first_not_of("0123456789") != each.npos) return kGpuIsLost;
  while (file >> each) {
    const std::string prefix = std::string(word) + "=";
    if (each.compare(0, prefix.size(), prefix) != 0) continue;
    *number = static_cast<Number>(std::strtoull(each.c_str() + prefix.size(), nullptr, 0));
    return 0;
  }
  return kNotSupported;
}

unsigned int LostAtStart() {
  unsigned int count = 0;
  return Say("lost_at_start", &count) == 0 ? count : 0;
}

bool Breaks(const char* how) {
  int wanted = 0;
  return std::getenv("FAKE_NVML") != nullptr && Say(how, &wanted) == 0 && wanted != 0;
}

[[noreturn]] void Hang() {
  while (true) pause();
}

__attribute__((constructor)) void Load() {
  if (Breaks("hang_at_load")) Hang();
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (Breaks("hang_at_start")) Hang();
  if (!Breaks("abort_at_start")) return 0;
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::abort();
}
int nvmlShutdown() { return 0; }

const char* nvmlErrorString(int result) {
  return result == kNotFound ? "Not Found" : result == kGpuIsLost ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1 + LostAtStart();
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void*, PciInfo* pci) {
  *pci = {};
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:C1:00.0");
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &the_device;
  return std::strcmp(uuid, "GPU-aaaa") == 0 ? 0 : kNotFound;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = &the_device;
  if (index == 0) return 0;
  return index <= LostAtStart() ? kGpuIsLost : kNotFound;
}

int nvmlDeviceGetMemoryInfo(void*, void*) { return kInvalidArgument; }  // this driver dropped it

int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* memory) {
  if (device != &the_device || memory->version != (sizeof(MemoryV2) | (2u << 24))) {
    return kInvalidArgument;
  }
  std::ifstream file(std::getenv("FAKE_NVML"));
  memory->total = 80ull << 30;
  return file >> memory->used ? 0 : kGpuIsLost;
}

int nvmlDeviceGetName(void*, char* name, unsigned int size) {
  std::snprintf(name, size, "NVIDIA H100");
  return 0;
}

int nvmlDeviceGetUUID(void*, char* uuid, unsigned int size) {
  std::snprintf(uuid, size, "GPU-aaaa");
  return 0;
}

int nvmlDeviceGetUtilizationRates(void*, Utilisation* rates) { return Say("busy", &rates->gpu); }

int nvmlDeviceGetTemperature(void*, int, unsigned int* celsius) {
  return Say("temperature", celsius);
}

int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {  // NOLINT
  return Say("slowdowns", reasons);
}

int nvmlDeviceGetTotalEccErrors(void*, int type, int since, unsigned long long* count) {  // NOLINT
  return type == 1 && since == 0 ? Say("errors", count) : kInvalidArgument;
}

int nvmlDeviceGetRetiredPagesPendingStatus(void*, int*) { return kNotSupported; }

int nvmlDeviceGetRemappedRows(void*, unsigned int*, unsigned int*, unsigned int* pending,
                              unsigned int* failed) {
  const int said = Say("pending", pending);
  return said == 0 ? Say("failed", failed) : said;
}

int nvmlEventSetCreate(void** events) {
  *events = &the_events;
  return 0;
}

int nvmlEventSetFree(void*) { return 0; }

int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) {  // NOLINT
  return types == 8 ? 0 : kInvalidArgument;
}

int nvmlEventSetWait_v2(void*, XidEvent* event, unsigned int) {
  unsigned long xid = 0;  // NOLINT
  if (Say("xid", &xid) != 0 || xid == told_xid) return kTimeout;
  told_xid = xid;
  *event = {&the_device, 8, xid, 0, 0};
  return 0;
}

}  // extern "C"
