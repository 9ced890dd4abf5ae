#include "llama/vocabulary.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/utf8.h"
#include "llama.h"
#include "llama/backend.h"

namespace specdec {
namespace {

const char* type_name(enum llama_vocab_type type) {
  switch (type) {
    case LLAMA_VOCAB_TYPE_NONE:
      return "none";
    case LLAMA_VOCAB_TYPE_SPM:
      return "SentencePiece BPE";
    case LLAMA_VOCAB_TYPE_BPE:
      return "byte-level BPE";
    case LLAMA_VOCAB_TYPE_WPM:
      return "WordPiece";
    case LLAMA_VOCAB_TYPE_UGM:
      return "unigram";
    case LLAMA_VOCAB_TYPE_RWKV:
      return "RWKV";
    default:
      return "other";
  }
}

std::string token_name(Token id) { return id < 0 ? "none" : std::to_string(id); }

std::string quoted(const std::string& text) { return "\"" + printable(text) + "\""; }

}  // namespace

int Vocabulary::size() const { return llama_vocab_n_tokens(vocab_); }
bool Vocabulary::is_end_of_generation(Token token) const { return llama_vocab_is_eog(vocab_, token); }
bool Vocabulary::adds_bos() const { return llama_vocab_get_add_bos(vocab_); }
Token Vocabulary::bos() const { return llama_vocab_bos(vocab_); }

std::vector<Token> Vocabulary::tokenize(const std::string& text) const {
  if (text.size() > static_cast<std::size_t>(INT_MAX / 2)) throw std::invalid_argument("the text is longer than 1 GiB");
  const int length = static_cast<int>(text.size());
  std::vector<Token> tokens(text.size() + 8);
  try {
    const AbortsAsErrors guard;
    int count = llama_tokenize(vocab_, text.data(), length, tokens.data(), static_cast<int>(tokens.size()), true, true);
    if (count < 0) {  // the buffer was too small; now the size is known
      tokens.resize(static_cast<std::size_t>(-count));
      count = llama_tokenize(vocab_, text.data(), length, tokens.data(), static_cast<int>(tokens.size()), true, true);
    }
    tokens.resize(static_cast<std::size_t>(std::max(0, count)));
  } catch (const std::out_of_range&) {  // SentencePiece's way to say it
    fail_unknown_bytes();
  } catch (const std::runtime_error& error) {
    throw ModelError(std::string(file_) + ": llama.cpp cannot tokenize with this vocabulary (" + type_name(llama_vocab_type(vocab_)) +
                     "): " + error.what() + "; convert the model to GGUF again");
  }
  if (std::any_of(tokens.begin(), tokens.end(), [](Token token) { return token < 0; })) fail_unknown_bytes();
  return tokens;
}

void Vocabulary::fail_unknown_bytes() const {
  throw ModelError(std::string(file_) + ": the vocabulary (" + type_name(llama_vocab_type(vocab_)) +
                   ") cannot represent the text: it has no tokens for single bytes. Leave out unusual characters, or convert the model "
                   "to GGUF again, with its byte tokens");
}

std::size_t Vocabulary::min_tokens(std::size_t bytes) const {
  const enum llama_vocab_type type = llama_vocab_type(vocab_);
  if (type != LLAMA_VOCAB_TYPE_SPM && type != LLAMA_VOCAB_TYPE_BPE) return 0;  // others normalise the text
  std::size_t longest = 1;
  for (Token id = 0; id < size(); ++id) {
    if ((llama_vocab_get_attr(vocab_, id) & (LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP)) != 0) return 0;  // take white space along
    longest = std::max(longest, std::strlen(llama_vocab_get_text(vocab_, id)));  // escaped, so not shorter than its bytes
  }
  return (bytes + longest - 1) / longest;
}

std::string Vocabulary::piece(Token token) const {
  std::string text;
  piece(token, text);
  return text;
}

void Vocabulary::piece(Token token, std::string& text) const {
  text.resize(32);
  int length = llama_token_to_piece(vocab_, token, text.data(), static_cast<int>(text.size()), 0, false);
  if (length < 0) {
    text.resize(static_cast<std::size_t>(-length));
    length = llama_token_to_piece(vocab_, token, text.data(), static_cast<int>(text.size()), 0, false);
  }
  text.resize(static_cast<std::size_t>(std::max(0, length)));
}

std::optional<std::string> Vocabulary::first_difference(const Compared& one, const Compared& other) {
  const llama_vocab *a = one.vocabulary.vocab_, *b = other.vocabulary.vocab_;
  const auto differ = [&](const std::string& what, const std::string& in_one, const std::string& in_other) {
    return what + " is " + in_one + " in the " + one.role + " and " + in_other + " in the " + other.role;
  };
  if (llama_vocab_type(a) != llama_vocab_type(b)) {
    return "the " + one.role + "'s tokenizer is " + type_name(llama_vocab_type(a)) + ", the " + other.role + "'s " +
           type_name(llama_vocab_type(b));
  }
  const struct {
    const char* name;
    Token one, other;
  } special[] = {
      {"BOS", llama_vocab_bos(a), llama_vocab_bos(b)},
      {"EOS", llama_vocab_eos(a), llama_vocab_eos(b)},
      {"EOT", llama_vocab_eot(a), llama_vocab_eot(b)},
  };
  for (const auto& s : special) {
    if (s.one != s.other) return differ(std::string("the ") + s.name + " token", token_name(s.one), token_name(s.other));
  }
  if (llama_vocab_get_add_bos(a) != llama_vocab_get_add_bos(b)) return std::string("only one of the two begins every text with BOS");
  for (Token id = 0; id < std::min(one.vocabulary.size(), other.vocabulary.size()); ++id) {
    const std::string in_one = llama_vocab_get_text(a, id), in_other = llama_vocab_get_text(b, id);
    const std::string token = "token " + std::to_string(id);
    if (in_one != in_other) return differ(token, quoted(in_one.c_str()), quoted(in_other.c_str()));
    if (one.vocabulary.is_end_of_generation(id) != other.vocabulary.is_end_of_generation(id)) {
      return token + " (" + quoted(in_one.c_str()) + ") ends the generation in only one of the two";
    }
  }
  return std::nullopt;
}

}  // namespace specdec
