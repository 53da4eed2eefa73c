// A peer of the sums: MPI_Allreduce, whatever way the installed MPI chooses. mpirun starts a
// process for each rank; rank 0 prints {"BYTES": [p50, p99]} in microseconds, as
// pytorch_all_reduce.py does.
//
//   mpi_all_reduce BYTES...

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// Bytes of one size in all, and the most sums of it.
constexpr size_t kTotal = size_t{400} << 20;
constexpr size_t kMost = 400;

std::vector<double> Microseconds(std::vector<float>& data, size_t times) {
  std::vector<double> took;
  for (size_t i = 0; i < times; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    const std::chrono::duration<double, std::micro> lasted =
        std::chrono::steady_clock::now() - begin;
    took.push_back(lasted.count());
  }
  std::sort(took.begin(), took.end());
  return took;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string rows;
  for (int i = 1; i < argc; ++i) {
    const size_t bytes = std::strtoull(argv[i], nullptr, 10);
    std::vector<float> data(bytes / sizeof(float));
    Microseconds(data, 2);
    const std::vector<double> took =
        Microseconds(data, std::clamp<size_t>(kTotal / bytes, 4, kMost));
    rows += (rows.empty() ? "" : ", ") + ("\"" + std::to_string(bytes)) + "\": [" +
            std::to_string(took[took.size() / 2]) + ", " +
            std::to_string(took[(took.size() - 1) * 99 / 100]) + "]";
  }
  if (rank == 0) std::printf("{%s}\n", rows.c_str());
  MPI_Finalize();
}
