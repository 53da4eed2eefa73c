#include "worker/trainer/program/trainer_main.h"

int main(int argc, char** argv) { return dp::trainer::RunTrainer("dp-trainer", argc, argv); }
