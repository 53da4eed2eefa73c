#pragma once

namespace dp::engine::cuda::on_host {

// From now on the device on the host refuses the capture of this number, from 0, of each thread, as
// CUDA may; -1: none. So a test sees what is done without graphs. Thread-safe.
void RefuseCapture(int number);
// How many have been refused. Thread-safe.
int CapturesRefused();

}  // namespace dp::engine::cuda::on_host
