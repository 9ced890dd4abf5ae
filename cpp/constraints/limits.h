// Limits on what a caller may have compiled into a constraint. The time to compile grows with the number of places
// where any character may stand: for a vocabulary of 152,000 tokens, by about 50 ms for each place of a counted
// repetition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specdec {

constexpr std::size_t max_constraint_bytes = 64 * 1024;
constexpr std::size_t max_regex_bytes = 4 * 1024;  // thousands of optional parts take seconds
constexpr int max_constraint_depth = 32;

// Whose text it is. What we make of requests that have been checked has larger limits.
enum class GrammarSource { client, ours };
constexpr std::size_t max_our_bytes = 4 << 20;
constexpr std::int64_t max_our_places = 8192;

constexpr std::int64_t max_counted_places = 512;  // in all: classes of characters times {n,m}; maxLength, maxItems

// Each check throws ArgumentError with this name.

// Rejects a text that is empty, too long, not UTF-8, or has a null character.
void check_constraint_text(const std::string& name, const std::string& text,
                           std::size_t max_bytes = max_constraint_bytes);
// Rejects a grammar or regular expression with parentheses nested too deeply or with too many classes of characters
// ([...], ., \w). What {n,m} follows counts as often as it may be repeated, also when nested.
void check_nesting_and_counts(const std::string& name, const std::string& text, bool has_literals);
[[noreturn]] void fail_too_many_places(const std::string& name);

// The end of a literal ("..."), class ([...]) or comment (# ...) that begins at `start`: the index past its last
// character.
std::size_t end_of_quoted(const std::string& text, std::size_t start);

}  // namespace specdec
