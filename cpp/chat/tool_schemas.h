// The schemas of a tool's arguments where the template's own form of calls is a grammar of llama.cpp's.
#pragma once

#include <string>
#include <vector>

namespace specdec {

// What such a grammar does not enforce: "NAME: POINTER" of each keyword, NAME the function and POINTER a place in its
// parameters. tools: a list of them, in JSON.
std::vector<std::string> keywords_not_in_calls(const std::string& tools);

}  // namespace specdec
