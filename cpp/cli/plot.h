// Plots are drawn by the Python package, which has matplotlib for it.
#pragma once

#include <string>

namespace specdec::cli {

// Throws specdec::Error, after Python said why on standard error, when the plot could not be drawn.
void check_plot(const std::string& file);
void draw_plot(const std::string& file, const std::string& json);

}  // namespace specdec::cli
