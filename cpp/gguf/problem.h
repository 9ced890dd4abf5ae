// Messages about unusable files: the file, what is wrong with it, what to do.
#pragma once

#include <string>

namespace specdec {

inline constexpr const char* get_again = "the file is damaged or incomplete, download or copy it again";
inline constexpr const char* convert_again = "convert the model to GGUF again";
inline constexpr const char* quantize_again = "quantize the model again";
inline constexpr const char* get_all_parts = "get all parts from the same place";

// Throws ModelError.
[[noreturn]] void fail_file(const std::string& path, const std::string& problem, const std::string& remedy);

// A name from the file for messages: quoted, shortened, with control characters escaped.
std::string shown(const std::string& name);

}  // namespace specdec
