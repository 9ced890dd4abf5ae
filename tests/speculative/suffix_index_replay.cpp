// A suffix index at the other end of a pipe, for test_suffix_index.py. A line of standard input is a command and numbers:
//   push TOKEN...    truncate LENGTH    clear
//   find TOKEN...    answered by "LENGTH TOKEN COUNT OF": the longest match, and what follows it most often; LENGTH 0: no match
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "speculative/suffix_index.h"

int main() {
  specdec::SuffixIndex index;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    std::vector<specdec::Token> numbers;
    for (specdec::Token number = 0; words >> number;) numbers.push_back(number);
    if (command == "push") {
      for (const specdec::Token token : numbers) index.push(token);
    } else if (command == "truncate" && numbers.size() == 1) {
      index.truncate(numbers.front());
    } else if (command == "clear") {
      index.clear();
    } else if (command == "find") {
      const auto match = index.find(numbers.data(), static_cast<int>(numbers.size()));
      const auto best = index.best(match);
      std::printf("%d %d %d %d\n", match.length, best.token, best.count, best.of);
      std::fflush(stdout);
    } else {
      std::fprintf(stderr, "not a command: %s\n", line.c_str());
      return 1;
    }
  }
}
