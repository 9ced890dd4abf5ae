// Bounds what JSON from outside may cost before a library parses it.
//
// nlohmann's ordered objects compare each name with all earlier ones of the object, so that time is quadratic in the
// names of one object; copies, merges and templates repeat that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace specdec {

constexpr int max_json_depth = 64;                        // nesting of objects and lists
constexpr std::size_t max_json_values = 4u << 20;         // numbers, strings, lists, ... in one text
constexpr std::uint64_t max_json_comparisons = 1u << 26;  // of names with earlier ones: 11,585 names in one object

// What exceeds these limits, to follow "the body has "; empty: nothing. Takes linear time. The text need not be JSON.
std::string json_excess(std::string_view text);

}  // namespace specdec
