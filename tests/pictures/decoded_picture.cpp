// decoded_picture FILE...: each as decode_picture() reads it, to stdout: a PPM file, or a line "error: ...". To stderr:
// the process's largest memory in MiB.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "pictures/decode.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    try {
      const specdec::Pixels pixels = specdec::decode_picture(bytes);
      std::printf("P6\n%d %d\n255\n", pixels.width, pixels.height);
      std::fwrite(pixels.rgb.data(), 1, pixels.rgb.size(), stdout);
    } catch (const specdec::UnusablePicture& error) {
      std::printf("error: %s\n", error.what());
    }
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, 6, "VmHWM:") == 0) std::fprintf(stderr, "%ld\n", std::atol(line.c_str() + 6) / 1024);
  }
  return 0;
}
