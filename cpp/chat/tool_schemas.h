// Checks the schemas of tools' arguments when calls in the template's own form follow a grammar of llama.cpp.
#pragma once

#include <string>
#include <vector>

namespace specdec {

// The keywords that such a grammar does not enforce, each as "NAME: POINTER" with the function's name and the keyword's
// place in its parameters. tools: a list of tools, in JSON.
std::vector<std::string> keywords_not_in_calls(const std::string& tools);

}  // namespace specdec
