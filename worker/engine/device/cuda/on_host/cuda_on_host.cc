#include "worker/engine/device/cuda/on_host/cuda_on_host.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/mutex.h"

// Runs a block's threads as fibers, and switches fibers where one waits. A fiber begins on its
// stack by setcontext. Later switches are long jumps, which make no system calls. A fiber never
// ends: fiber i runs thread i of every block that has more than i threads.

namespace dp::engine::cuda::on_host {
namespace {

constexpr int kWarp = 32;
constexpr int kThreadsMax = 1024;
// Every device since compute capability 8.0 has this much, and a launch may ask for it.
constexpr int kSharedBytesMax = 99 << 10;
constexpr unsigned kGridRowsMax = 65535;
constexpr size_t kStackBytes = 128 << 10;

enum class State { kRuns, kAwaitsBlock, kAwaitsWarp, kDone };

using JumpPoint = void* [5];  // of __builtin_setjmp

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  bool begun = false;
  JumpPoint resume;  // valid once it has waited
  State state = State::kDone;
  dim3 index;
};

std::vector<Fiber> fibers;  // as many as the largest block has had threads
JumpPoint scheduler;
const std::function<void()>* thread_of_grid = nullptr;
int running = 0;
int threads = 0;
uint64_t warp_slots[kThreadsMax];
int block_slots[kThreadsMax];
std::vector<float> dynamic_shared;

Mutex device_mu;  // held while a kernel runs, over all of the above

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "kernel on the host: %s\n", what);
  std::abort();
}

// Jumps are the compiler's own. The C library may reject a jump to another stack, and the address
// sanitizer would treat it as a return.
#define DP_SWITCHES_STACKS [[gnu::noinline, gnu::no_sanitize("address")]]

[[noreturn]] DP_SWITCHES_STACKS void JumpTo(JumpPoint& point) { __builtin_longjmp(point, 1); }

// The compiler does not know that others change variables during a jump.
inline void OthersHaveRun() { asm volatile("" ::: "memory"); }

DP_SWITCHES_STACKS void Await(State state) {
  fibers[running].state = state;
  if (__builtin_setjmp(fibers[running].resume) == 0) JumpTo(scheduler);
  OthersHaveRun();
}

[[noreturn]] void RunFiber() {
  for (;;) {
    (*thread_of_grid)();
    Await(State::kDone);
  }
}

// Begins the fiber on its stack. Returns only if that fails.
DP_SWITCHES_STACKS void Begin(Fiber& fiber) {
  fiber.begun = true;
  static ucontext_t context;
  getcontext(&context);
  context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStackBytes};
  context.uc_link = nullptr;
  makecontext(&context, RunFiber, 0);
  setcontext(&context);
  Require(false, "setcontext failed");
}

// Lets the fiber run until it waits.
DP_SWITCHES_STACKS void Switch(Fiber& fiber) {
  if (__builtin_setjmp(scheduler) != 0) return OthersHaveRun();
  if (fiber.begun) JumpTo(fiber.resume);
  Begin(fiber);
}

void StartThread(int thread) {
  Fiber& fiber = fibers[thread];
  const unsigned t = thread;
  fiber.index = {t % block_size.x, t / block_size.x % block_size.y,
                 t / (block_size.x * block_size.y)};
  fiber.state = State::kRuns;
}

// Lets every thread that does not wait run until it waits. Goes forward or backward, so that
// results that depend on the threads' order show. Returns whether any ran.
bool RunAll(bool forward) {
  bool ran = false;
  for (int i = 0; i < threads; ++i) {
    running = forward ? i : threads - 1 - i;
    if (fibers[running].state != State::kRuns) continue;
    ran = true;
    thread_index = fibers[running].index;
    Switch(fibers[running]);
  }
  return ran;
}

int Count(int begin, int end, State state) {
  int count = 0;
  for (int i = begin; i < end; ++i) count += fibers[i].state == state;
  return count;
}

// Releases threads that all wait for the same point. Returns false when all threads are done.
bool Release() {
  bool released = false;
  const auto release = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) fibers[i].state = State::kRuns;
    released = true;
  };
  for (int begin = 0; begin < threads; begin += kWarp) {
    const int end = std::min(begin + kWarp, threads);
    const int waiting = Count(begin, end, State::kAwaitsWarp);
    if (waiting == kWarp) release(begin, end);
    Require(waiting == 0 || waiting == kWarp, "a lane is missing from what its warp does");
  }
  if (released) return true;
  if (Count(0, threads, State::kDone) == threads) return false;
  Require(Count(0, threads, State::kAwaitsBlock) == threads,
          "a thread has left that its block waits for");
  release(0, threads);
  return true;
}

void RunBlock() {
  for (int thread = 0; thread < threads; ++thread) StartThread(thread);
  bool forward = true;
  do {
    while (RunAll(forward)) forward = !forward;
  } while (Release());
}

}  // namespace

dim3 thread_index, block_index, block_size, grid_size;

void Run(dim3 blocks, dim3 threads_each, int shared_bytes, const std::function<void()>& thread) {
  MutexLock lock(device_mu);
  threads = static_cast<int>(threads_each.x * threads_each.y * threads_each.z);
  Require(threads >= 1 && threads <= kThreadsMax, "a block has 1 to 1024 threads");
  Require(blocks.x >= 1 && blocks.y >= 1 && blocks.y <= kGridRowsMax && blocks.z == 1,
          "a grid has blocks, and few across its second axis");
  Require(shared_bytes <= kSharedBytesMax, "a block has 99 KiB of shared memory");
  if (static_cast<int>(fibers.size()) < threads) fibers.resize(threads);
  thread_of_grid = &thread;
  block_size = threads_each;
  grid_size = blocks;
  for (unsigned y = 0; y < blocks.y; ++y) {
    for (unsigned x = 0; x < blocks.x; ++x) {
      block_index = dim3(x, y, 0);
      // NaNs, so that a read before the first write shows.
      dynamic_shared.assign(shared_bytes / sizeof(float), NAN);
      RunBlock();
    }
  }
}

float* DynamicShared() { return dynamic_shared.data(); }
void AwaitBlock() { Await(State::kAwaitsBlock); }
void AwaitWarp() { Await(State::kAwaitsWarp); }
uint64_t* WarpSlots() { return warp_slots + running / kWarp * kWarp; }
int* BlockSlots() { return block_slots; }
int Lane() { return running % kWarp; }
int Thread() { return running; }
int Threads() { return threads; }

}  // namespace dp::engine::cuda::on_host
