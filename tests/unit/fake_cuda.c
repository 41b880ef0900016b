/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libcuda.so.1 in test_driver.c: functions of the driver's names that only say which
 * of them was called. Their arguments are not looked at.
 * OLD_DRIVER: one is missing. */
#define SAYS(name, number)                                 \
    __attribute__((visibility("default"))) int name(void); \
    int name(void)                                         \
    {                                                      \
        return number;                                     \
    }

SAYS(cuCtxGetCurrent, 1)
SAYS(cuModuleLoadData, 2)
SAYS(cuModuleGetFunction, 3)
SAYS(cuMemAlloc_v2, 4)
SAYS(cuMemFree_v2, 5)
SAYS(cuMemHostAlloc, 6)
SAYS(cuMemsetD8Async, 7)
SAYS(cuLaunchKernel, 8)
SAYS(cuMemcpyDtoHAsync_v2, 9)
SAYS(cuStreamSynchronize, 10)
SAYS(cuStreamIsCapturing, 11)
SAYS(cuThreadExchangeStreamCaptureMode, 12)
#ifndef OLD_DRIVER
SAYS(cuGetErrorName, 13)
#endif
SAYS(cuMemFreeHost, 14)
SAYS(cuEventCreate, 15)
SAYS(cuEventRecord, 16)
SAYS(cuEventQuery, 17)
SAYS(cuEventSynchronize, 18)
SAYS(cuEventDestroy_v2, 19)
SAYS(cuCtxSetCurrent, 20)
SAYS(cuCtxPushCurrent_v2, 21)
SAYS(cuCtxPopCurrent_v2, 22)
SAYS(cuCtxGetDevice, 23)
SAYS(cuDeviceGet, 24)
SAYS(cuDevicePrimaryCtxGetState, 25)
SAYS(cuDevicePrimaryCtxRetain, 26)
SAYS(cuDevicePrimaryCtxRelease_v2, 27)
