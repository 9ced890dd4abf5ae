// Loads libraries while the program runs.
#pragma once

#include <string>
#include <vector>

namespace specdec {

void* open_library(const char* name);  // null if it is not there
std::string library_problem();         // why the last open_library() of this thread failed
void* find_symbol(void* library, const char* name);
void close_library(void* library);

std::vector<const char*> curl_names();  // file names that libcurl may have

}  // namespace specdec
