#include "engine/draft_corpus.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "disk_cache/checked_file.h"
#include "engine/text_folder.h"
#include "gguf/fingerprint.h"
#include "platform/file.h"

namespace specdec {
namespace {

constexpr char corpus_magic[] = "SDCORPUS";
constexpr std::uint32_t corpus_version = 3;
constexpr std::size_t step_bytes = 32 << 10;  // of text tokenized at once

std::string key_of(const std::string& content, const Vocabulary& vocabulary) {
  Fingerprint key;
  key.add(content.data(), content.size());
  std::string piece;
  for (Token token = 0; token < vocabulary.size(); ++token) {
    vocabulary.piece(token, piece, true);
    key.add(piece.data(), piece.size() + 1);
  }
  // Two tokenizers may have the same tokens and still cut a text differently.
  const std::vector<Token> sample = vocabulary.tokenize(content.substr(0, 4096), false);
  key.add(sample.data(), sample.size() * sizeof(Token));
  return key.text();
}

// The end of the step that starts at `begin`: after a line if possible, otherwise between two characters.
std::size_t end_of_step(const std::string& text, std::size_t begin) {
  std::size_t end = begin + step_bytes;
  if (end >= text.size()) return text.size();
  const std::size_t line = text.rfind('\n', end - 1);
  if (line != std::string::npos && line > begin) return line + 1;
  const auto is_inside_character = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; };
  for (int moved = 0; moved < 3 && is_inside_character(); ++moved) --end;
  return end;
}

// Tokenizes in steps, so tokens at their borders may differ from those of the whole text.
std::vector<Token> tokens_of_text(const std::string& text, const Vocabulary& vocabulary,
                                  const LoadProgressCallback& progress) {
  std::vector<Token> tokens;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    if (progress && !progress({"tokenizing the corpus", static_cast<double>(begin) / static_cast<double>(text.size())}))
      throw Cancelled("the corpus was not read to its end");
    end = end_of_step(text, begin);
    const std::vector<Token> more =
        vocabulary.tokenize(text.substr(begin, end - begin), false, Vocabulary::Part::middle);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

std::vector<Token> tokens_of_ids(const std::string& path, const std::string& content, int vocabulary_size) {
  std::vector<Token> tokens;
  const char* const end = content.data() + content.size();
  for (const char* at = content.data(); at < end;) {
    if (*at == '\n') tokens.push_back(CorpusIndex::end_of_document);
    if (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
      ++at;
      continue;
    }
    Token token = 0;
    const auto [next, error] = std::from_chars(at, end, token);
    if (error != std::errc() || token < 0 || token >= vocabulary_size) {
      throw Error(path + ": \"" +
                  std::string(at, std::find_if(at, std::min(end, at + 20), [](char c) { return c <= ' '; })) +
                  "\" is not the id of a token of the target, 0 to " + std::to_string(vocabulary_size - 1));
    }
    tokens.push_back(token);
    at = next;
  }
  return tokens;
}

// The contents of a file, or of the text files of a folder.
std::vector<std::string> documents_of(const std::string& path, const LoadProgressCallback& progress) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return {File::open(path).read_all()};
  std::vector<std::string> documents;
  for (const std::string& file : files_below(path)) {
    if (progress && !progress({"reading the corpus", 0.0})) throw Cancelled("the corpus was not read to its end");
    std::optional<std::string> text = text_of_file(file);
    if (text && !text->empty()) documents.push_back(*std::move(text));
  }
  if (documents.empty()) throw Error(path + ": there is no text file in this folder");
  return documents;
}

// Next to a file; in a folder, as a hidden file, which is no part of the corpus.
std::string index_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / ".specdec.index").string() : path + ".index";
}

// Null if there is none or it cannot be used.
std::shared_ptr<const CorpusIndex> kept_index(const std::string& path, const std::string& key) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return nullptr;
  try {
    CheckedFileReader file(path, corpus_magic, corpus_version, "the index of a corpus");
    if (file.field() != key) return nullptr;
    auto text = file.values<Token>();
    return std::make_shared<const CorpusIndex>(std::move(text), file.values<std::int32_t>());
  } catch (const Error&) {
    return nullptr;
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

}  // namespace

DraftCorpus load_corpus(const std::string& path, const Vocabulary& vocabulary, const LoadProgressCallback& progress) {
  const std::vector<std::string> documents = documents_of(path, progress);
  std::string content;
  for (const std::string& document : documents) {
    if (!content.empty()) content += '\0';
    content += document;
    if (content.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw Error(path + ": a corpus has at most 2 GiB; give a part of it");
  }
  const std::string key = key_of(content, vocabulary), kept = index_path(path);
  DraftCorpus corpus;
  corpus.index = kept_index(kept, key);
  if (corpus.index) return corpus;
  const bool has_ids = path.size() > 4 && path.compare(path.size() - 4, 4, ".ids") == 0;
  std::vector<Token> tokens;
  if (has_ids) {
    tokens = tokens_of_ids(path, content, vocabulary.size());
  } else {
    for (const std::string& document : documents) {
      if (!tokens.empty()) tokens.push_back(CorpusIndex::end_of_document);
      const std::vector<Token> more = tokens_of_text(document, vocabulary, progress);
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  const auto indexing = [&](double share) { return !progress || progress({"indexing the corpus", share}); };
  corpus.index = std::make_shared<const CorpusIndex>(std::move(tokens), indexing);
  indexing(1.0);
  try {
    CheckedFileWriter file(kept, corpus_magic, corpus_version);
    file.field(key);
    file.field(corpus.index->text());
    file.field(corpus.index->order());
    file.finish();
  } catch (const Error& error) {
    corpus.note = std::string("the index of the corpus is rebuilt at every start: ") + error.what();
  }
  return corpus;
}

}  // namespace specdec
