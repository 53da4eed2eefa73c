#pragma once

namespace dp::engine::cuda::on_host {

// From now on the device on the host refuses, as CUDA may, the capture of this number of each
// thread. Captures are counted from 0; -1 refuses none. Tests thus run steps without graphs.
// Thread-safe.
void RefuseCapture(int number);
// How many captures have been refused. Thread-safe.
int CapturesRefused();

}  // namespace dp::engine::cuda::on_host
