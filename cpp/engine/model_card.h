// What a model's file says about itself, for lists of models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace specdec {

struct ModelCard {
  std::uint64_t file_bytes = 0, parameters = 0;  // of all parts
  std::int64_t modified = 0;                     // Unix time in seconds, of the first part
  std::string architecture;
  std::string weight_type;  // the type that takes the most bytes: "Q4_K"
  std::string fingerprint;  // gguf/fingerprint.h
  std::string metadata;     // JSON, {"general.name": ...}; arrays that are longer than 16 are null
};

// Reads the header of a GGUF file, and some bytes of each tensor. Throws ModelError.
ModelCard read_model_card(const std::string& path);

// Caches the cards of files that are asked for repeatedly; a card is read again after its file has changed. For any
// thread.
class ModelCards {
 public:
  std::shared_ptr<const ModelCard> card(const std::string& path);  // throws ModelError

 private:
  struct Known {
    std::uint64_t size;
    std::filesystem::file_time_type changed;
    std::shared_ptr<const ModelCard> card;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace specdec
