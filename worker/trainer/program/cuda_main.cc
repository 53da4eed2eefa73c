#include <iostream>
#include <string_view>

#include "worker/trainer/program/cuda_driver.h"
#include "worker/trainer/program/self_check.h"
#include "worker/trainer/program/trainer_main.h"

int main(int argc, char** argv) {
  dp::trainer::LoadKernelsAtStart();
  if (argc == 2 && std::string_view(argv[1]) == "--self-check") {
    return dp::trainer::SelfCheck(dp::trainer::CudaNeeds(), std::cout);
  }
  return dp::trainer::RunTrainer("dp-trainer-cuda", argc, argv);
}
