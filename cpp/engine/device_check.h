// Checks that rows on a device have the same bits however a text is cut into passes (llama/pass_shape.h). This is the
// test that docs/devices.md relies on, for the user's own device and model.
#pragma once

#include <string>
#include <vector>

namespace specdec {

struct DeviceCheck {
  std::string places;     // what ran where
  int width = 0;          // of the passes
  bool pads = true;       // to that width; otherwise it is the most
  int num_rows = 0;       // compared
  int num_differing = 0;  // rows that differ between ways to cut the text; 0 if the device is exact
  int num_narrow = 0;     // the same for passes that need not be exact, over 1 and over 4 tokens
  double cost = 0.0;      // time of an exact pass over 1 token divided by that of any pass over 1 token

  bool is_exact() const { return num_differing == 0; }
  std::string text() const;  // in a few sentences
};

// Runs all layers of the model on these devices (llama/devices.h). Throws ModelError and std::invalid_argument.
DeviceCheck check_device(const std::string& path, const std::vector<std::string>& devices, int num_threads);

}  // namespace specdec
