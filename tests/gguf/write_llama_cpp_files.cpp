// Writes the hand-made files of llama.cpp's tests/test-gguf.cpp into a folder, bad ones as NAME.bad.gguf and sound ones
// as NAME.sound.gguf. Built by check_llama_cpp_files.py, which has that file.
#define main main_of_llama_cpp
#include "test-gguf.cpp"
#undef main

#include <fstream>
#include <stdexcept>

int main(int, char** argv) {
  ggml_set_abort_callback([](const char* message) { throw std::runtime_error(message); });
  for (int number = 0; number < offset_has_data + 1000; ++number) {
    const auto kind = static_cast<handcrafted_file_type>(number);
    std::string name;
    try {
      name = handcrafted_file_type_name(kind);
    } catch (const std::runtime_error&) {  // no such kind
      continue;
    }
    FILE* file = get_handcrafted_file(static_cast<unsigned>(std::stoul(argv[2])), kind);
    const std::vector<uint8_t> bytes = read_file_to_buffer(file);
    fclose(file);
    name += expect_context_not_null(kind) ? ".sound.gguf" : ".bad.gguf";
    std::ofstream(std::string(argv[1]) + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}
