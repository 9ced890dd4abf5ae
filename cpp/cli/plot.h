// Draws plots with the Python package and matplotlib.
#pragma once

#include <string>

namespace specdec::cli {

// Throws specdec::Error if the plot cannot be drawn; Python has then written the reason to standard error.
void check_plot(const std::string& file, bool overwrites);
void draw_plot(const std::string& file, bool overwrites, const std::string& json);

}  // namespace specdec::cli
