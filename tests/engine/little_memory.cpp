// A Generator on a machine with little memory, for test_little_memory.py: little_memory TARGET DRAFT SEQUENCES BYTES.
//
// The system says that BYTES are available. Prints the notes, a line each, and the greedy tokens after a prompt; or the
// error.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "engine/generator.h"

namespace {
std::uint64_t available = 0;
}

// Linked in place of specdec::available_memory().
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" std::uint64_t __wrap__ZN7specdec16available_memoryEv() { return available; }

int main(int argc, char** argv) {
  using namespace specdec;
  if (argc != 5) return 2;
  available = std::strtoull(argv[4], nullptr, 10);
  GeneratorOptions options;
  options.target = argv[1];
  options.draft = draft_source(argv[2]);
  options.max_sequences = std::atoi(argv[3]);
  options.n_ctx = 256;
  options.n_threads = 1;
  options.num_draft_tokens = 5;
  try {
    Generator gen(options);
    for (const std::string& note : gen.models().notes()) std::printf("%s\n", note.c_str());
    Request request;
    request.prompt_tokens = {0, 40, 50, 60, 70};
    request.max_tokens = 40;
    request.sampling.temperature = 0;
    PieceReader pieces(gen.submit(request));
    while (const auto piece = pieces.next()) std::printf("%d ", piece->token);
    std::printf("\n");
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
