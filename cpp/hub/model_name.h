// Names of models on the Hugging Face hub, and the choice of a repository's files by name.
#pragma once

#include <string>
#include <vector>

namespace specdec {

// hf:OWNER/REPOSITORY, hf:OWNER/REPOSITORY:QUANT or hf:OWNER/REPOSITORY/FILE.gguf.
struct HubName {
  std::string repository;  // "owner/name"
  std::string quant;       // "Q4_K_M"; empty: not chosen
  std::string file;        // a path in the repository; empty: chosen by quant

  std::string text() const;
};

bool is_hub_name(const std::string& text);  // begins with "hf:"
// With or without "hf:". Throws std::invalid_argument.
HubName parse_hub_name(const std::string& text);

// The models among a repository's paths, with the first part of split ones. Files that are drafting heads by their
// names ("dflash-...", "mtp-...") are not models.
std::vector<std::string> models_among(std::vector<std::string> paths);
std::vector<std::string> models_and_heads_among(std::vector<std::string> paths);

// Projectors among the paths ("mmproj" in the name), the best first: F16, BF16, Q8_0, F32, others.
std::vector<std::string> projectors_among(std::vector<std::string> paths);

// Whether a path has the quant in its name, ignoring case, followed by . or -, as in "qwen-Q4_K_M.gguf",
// "qwen-Q4_K_M-00001-of-00002.gguf" and "Q4_K_M/qwen-...".
bool has_quant(const std::string& path, const std::string& quant);
bool are_parts_of_one(const std::string& path, const std::string& other);  // or the same

// The model's files among a repository's paths, all parts of a split model in order. The rule is that of llama.cpp's
// -hf: the first file in alphabetical order with the quant in its name, ignoring case; if no quant is chosen, Q4_K_M,
// else Q8_0, else the first file. Projectors, importance matrices and heads are not models. Throws ModelError that
// lists the repository's models.
std::vector<std::string> choose_model_files(const HubName& name, std::vector<std::string> paths);

}  // namespace specdec
