// cuda-device-check as plain C++ in the simulator.
#include "device_check.cu"
