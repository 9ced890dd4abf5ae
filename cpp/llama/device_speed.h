// How fast devices and the CPU multiply.
#pragma once

#include <limits>

struct ggml_backend_device;

namespace specdec {

// Seconds of a product of 70 MB of weights (Q8_0, more than most caches hold) with this many columns; the median of
// several. device: null for the CPU with num_threads threads. Above `limit` it is an estimate from a small product, so
// that a slow device does not take long. Throws std::runtime_error if the device fails.
double seconds_of_product(ggml_backend_device* device, int columns, int num_threads,
                          double limit = std::numeric_limits<double>::infinity());

}  // namespace specdec
