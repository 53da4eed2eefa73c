# Checks that bf16's exponential becomes the instruction that flushes small results, which needs no
# other beside it.
#
#   cmake -DNVCC=... -DSOURCE=... -DINCLUDE=... -DPTX=... -P expect_exponentials.cmake

execute_process(COMMAND ${NVCC} -std=c++20 -arch=compute_90 -ptx -I ${INCLUDE} -o ${PTX} ${SOURCE}
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PTX} text)
if(NOT text MATCHES "ex2[.]approx[.]ftz[.]f32" OR text MATCHES "ex2[.]approx[.]f32")
  message(FATAL_ERROR "bf16's exponential is not ex2.approx.ftz.f32 alone:\n${text}")
endif()
