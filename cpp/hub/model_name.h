// Names of models on the Hugging Face hub, and which of a repository's files a name means.
#pragma once

#include <string>
#include <vector>

namespace specdec {

// hf:OWNER/REPOSITORY, hf:OWNER/REPOSITORY:QUANT or hf:OWNER/REPOSITORY/FILE.gguf.
struct HubName {
  std::string repository;  // "owner/name"
  std::string quant;       // "Q4_K_M"; empty: not chosen
  std::string file;        // its path in the repository; empty: chosen by quant

  std::string text() const;
};

bool is_hub_name(const std::string& text);  // begins with "hf:"
// With or without "hf:". Throws std::invalid_argument.
HubName parse_hub_name(const std::string& text);

// The models among a repository's paths; of split ones the first part. Drafting heads in files of their own, if their
// names say so ("dflash-...", "mtp-..."), are no models.
std::vector<std::string> models_among(std::vector<std::string> paths);
std::vector<std::string> models_and_heads_among(std::vector<std::string> paths);

// The model's files among a repository's paths, all parts of a split model in order. The rule is that of llama.cpp's
// -hf: the first file in alphabetical order that has the quant in its name, without regard to case; Q4_K_M or else Q8_0
// or else the first file where none is chosen. Projectors, importance matrices and heads are not models. Throws
// ModelError that names what there is.
std::vector<std::string> choose_model_files(const HubName& name, std::vector<std::string> paths);

}  // namespace specdec
