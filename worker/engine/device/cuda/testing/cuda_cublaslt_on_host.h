#pragma once

namespace dp::engine::cuda::on_host {

// How many processors the last product through cuBLASLt on the host was asked to fill; 0: all.
int SmsOfLastProduct();

}  // namespace dp::engine::cuda::on_host
