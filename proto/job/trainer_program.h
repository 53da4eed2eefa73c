#pragma once

namespace dp {

// The first word of a command line that stands for the worker's own dp-trainer. dpctl, which does
// not know where a worker has it, writes it for jobs that remove files. A worker of an earlier
// release takes it for a program that it does not find.
inline constexpr char kTrainerProgram[] = "${dp_trainer}";

}  // namespace dp
