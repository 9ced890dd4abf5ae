// Model files changed in a few places, as a fuzzer's input describes them.
//
// The input: u8 number of a sound model, then edits of 8 bytes: u8 what is done, u8 which value, u16 which key or
// tensor, u32 a number. All are taken modulo what there is, so every input means something; a rest of fewer than 8
// bytes means nothing. The sound models are the files of the folder SPECDEC_FUZZ_MODELS (make_models.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specdec::fuzz {

// What an edit does, in the order of its first byte.
inline constexpr const char* names_of_edits[] = {
    "set",  "remove", "put number", "set element", "set elements", "wrap",   "repeat",   "architecture",
    "type", "shape",  "offset",     "drop",        "rename",       "weight", "truncate", "flip"};

// Writes the file that the input describes, and returns its path, which is always the same: SPECDEC_FUZZ_FILE, or a
// temporary one. With SPECDEC_FUZZ_SHOW in the environment, prints the edits.
std::string write_edited_model(const std::uint8_t* input, std::size_t size);

// Writes a sound model as one of another of llama.cpp's architectures, and returns its path.
std::string write_as_architecture(std::size_t model, std::size_t architecture);
std::size_t num_models();
std::size_t num_architectures();

// libFuzzer's hook: changes, adds or removes an edit. Returns the input's new size.
std::size_t mutate_edits(std::uint8_t* input, std::size_t size, std::size_t max_size, unsigned seed);

}  // namespace specdec::fuzz
