// Prints the features of this machine's CPU as a CMake list, in the words of gcc's -m options ("avx512_vnni":
// avx512vnni).
#include <cstdio>

#include "base/isa.h"

int main() {
  for (const char c : specdec::feature_names(specdec::cpu_features())) {
    if (c != '_' && c != ' ') std::putchar(c == ',' ? ';' : c);
  }
}
