// What is text in a folder of mixed files: for drafts copied from a corpus, and for specdec-train.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace specdec {

constexpr std::size_t largest_text_file = std::size_t{1} << 20;  // bytes; only the beginning of a larger file is read

// The files below a folder in the order of their paths, without hidden ones, those in hidden folders, and links. Throws
// Error.
std::vector<std::string> files_below(const std::string& folder);

// The text of a file, or the beginning of a large one, with replacement characters for bytes that are no UTF-8;
// nullopt: it is binary, because it has a NUL or because more than one character in 100 had to be replaced. Throws
// Error.
std::optional<std::string> text_of_file(const std::string& path);

}  // namespace specdec
