// Checks that rows on a device have the same bits however a text is cut into passes of one width (llama/fixed_width.h).
// This is the test that docs/devices.md relies on, for the user's own device and model.
#pragma once

#include <string>
#include <vector>

namespace specdec {

struct DeviceCheck {
  std::string places;       // what ran where
  int width = 0;            // of the passes
  int num_rows = 0;         // compared
  int num_differing = 0;    // rows that differ between ways to cut the text; 0 if the device is exact
  int num_narrow = 0;       // rows that differ between passes over 1 and over 4 tokens without a fixed width
  double width_cost = 0.0;  // time of a pass of that width divided by that of a pass over 1 token

  bool is_exact() const { return num_differing == 0; }
  std::string text() const;  // in a few sentences
};

// Runs all layers of the model on these devices (llama/devices.h). Throws ModelError and std::invalid_argument.
DeviceCheck check_device(const std::string& path, const std::vector<std::string>& devices, int num_threads);

}  // namespace specdec
