// The few services of a CUDA runtime that the backend uses, with errors as exceptions. Two implementations with the
// same names: the CUDA runtime, and the simulator's.
//
//   allocate, release            device memory, not initialised
//   allocate_pinned, release_pinned   host memory that kernels can read and write through the same pointer
//   create_stream, destroy       work in one stream happens in order
//   copy(to, from, bytes, s)     any direction, in the order of the stream; `from` in pageable memory is read at once
//   clear(to, bytes, s)          zero bytes
//   wait(s), wait_all()          everything in the stream, or in all, has happened; errors of earlier kernels are
//                                raised here
//   visible(pointer)             whether kernels can read this memory: device or pinned
//   begin_capture, end_capture   what is put into the stream between them becomes a graph and does not happen yet;
//                                no allocation, no release, no wait and no copy from or to pageable memory in between
//   abandon_capture(s)           ends a capture and throws away what it holds; never fails
//   launch<Kernel>(s, shape, arguments), launch(graph, s), destroy(graph)
//   device_count()               0: no device, or no driver
//
// Errors: backend_error with the runtime's own words.
#pragma once

#include <cstddef>

#include <dflash/cuda/execution.hpp>

#if defined(__CUDACC__)
#include <dflash/cuda/runtime_device.hpp>
#else
#include <dflash/cuda/shim/runtime.hpp>
#endif
