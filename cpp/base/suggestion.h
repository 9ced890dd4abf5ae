// The name that a misspelt one probably stands for.
#pragma once

#include <string>
#include <vector>

namespace specdec {

// "; did you mean X?" for the candidate closest to `word`, else for the first that contains it; "" if there is none.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace specdec
