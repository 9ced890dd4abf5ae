// Changed models through a whole generation: they run or are an Error of ours.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "edited_model.h"
#include "engine/generator.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* input, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return specdec::fuzz::mutate_edits(input, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    specdec::GeneratorOptions options;
    options.target = specdec::fuzz::write_edited_model(input, size);
    options.n_ctx = 64;
    options.n_threads = 1;
    options.max_sequences =
        size > 0 && input[0] >= 128 ? 5 : 1;  // llama.cpp tries graphs of as many tokens when it loads
    options.num_draft_tokens = 2;
    options.draft = specdec::draft_source("ngram");
    specdec::Generator generator(options);
    specdec::Request request;
    request.prompt = "Hello, w\u00f6rld llo llo";
    request.max_tokens = 4;
    request.seed = 1;
    specdec::PieceReader pieces(generator.submit(request));
    while (pieces.next()) {
    }
  } catch (const specdec::Error&) {
  }
  return 0;
}
