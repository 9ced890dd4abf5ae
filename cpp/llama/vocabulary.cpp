#include "llama/vocabulary.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "base/utf8.h"
#include "llama.h"

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

constexpr const char* white_space = " \t\n\v\f\r";

// The tokens that llama.cpp recognises in a text only on request, by the first byte of their texts, longest first.
class ControlTokens {
 public:
  struct Match {
    Token token;
    std::size_t length;              // in bytes
    bool strips_left, strips_right;  // also takes the adjacent white space
  };

  explicit ControlTokens(const llama_vocab* vocab) {
    for (Token id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
      const int attributes = llama_vocab_get_attr(vocab, id);
      if ((attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) == 0) continue;
      const std::string text = llama_vocab_get_text(vocab, id);
      if (text.empty()) continue;
      tokens_[static_cast<unsigned char>(text[0])].push_back(
          {text,
           {id, text.size(), (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
            (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0}});
    }
    for (auto& with_one_byte : tokens_) {
      std::stable_sort(with_one_byte.begin(), with_one_byte.end(),
                       [](const Entry& a, const Entry& b) { return a.text.size() > b.text.size(); });
    }
  }

  // The longest control token that begins at this byte.
  std::optional<Match> at(const std::string& text, std::size_t begin) const {
    for (const Entry& entry : tokens_[static_cast<unsigned char>(text[begin])]) {
      if (text.compare(begin, entry.text.size(), entry.text) == 0) return entry.match;
    }
    return std::nullopt;
  }

  // Whether the input contains the text of a control token or a part of it.
  bool is_in_input(const MarkedText& marked) const;

 private:
  struct Entry {
    std::string text;
    Match match;
  };
  std::array<std::vector<Entry>, 256> tokens_;
};

bool overlaps_input(const MarkedText& marked, std::size_t begin, std::size_t length) {
  const auto after =
      std::upper_bound(marked.input.begin(), marked.input.end(), begin,
                       [](std::size_t byte, const auto& range) { return byte < range.second; });  // ends after `begin`
  return after != marked.input.end() && after->first < begin + length;
}

bool ControlTokens::is_in_input(const MarkedText& marked) const {
  for (std::size_t at_byte = 0; at_byte < marked.text.size(); ++at_byte) {
    for (const Entry& entry : tokens_[static_cast<unsigned char>(marked.text[at_byte])]) {
      if (marked.text.compare(at_byte, entry.text.size(), entry.text) == 0 &&
          overlaps_input(marked, at_byte, entry.text.size()))
        return true;
    }
  }
  return false;
}

}  // namespace

int Vocabulary::size() const { return llama_vocab_n_tokens(vocab_); }
bool Vocabulary::is_end_of_generation(Token token) const { return llama_vocab_is_eog(vocab_, token); }
bool Vocabulary::adds_bos() const { return llama_vocab_get_add_bos(vocab_); }
bool Vocabulary::adds_eos() const { return llama_vocab_get_add_eos(vocab_); }
Token Vocabulary::bos() const { return llama_vocab_bos(vocab_); }

Token Vocabulary::eos() const { return llama_vocab_eos(vocab_); }

Vocabulary::InfillTokens Vocabulary::infill_tokens() const {
  return {llama_vocab_fim_pre(vocab_), llama_vocab_fim_suf(vocab_), llama_vocab_fim_mid(vocab_),
          llama_vocab_fim_rep(vocab_), llama_vocab_fim_sep(vocab_)};
}

std::vector<Token> Vocabulary::tokenize(const std::string& text, bool special, Part part) const {
  std::vector<Token> tokens = tokens_of(text, part != Part::middle, special);
  if (part == Part::middle) return tokens;
  if (part == Part::beginning && adds_eos() && !tokens.empty() && tokens.back() == eos()) tokens.pop_back();
  if (adds_bos() && tokens.size() > 1 && tokens[0] == bos() && tokens[1] == bos()) tokens.erase(tokens.begin());
  return tokens;
}

std::vector<Token> Vocabulary::tokenize(const MarkedText& marked) const {
  if (marked.input.empty()) return tokenize(marked.text);
  const ControlTokens control(vocab_);
  // In one piece if possible: ordinary tokens may cross the borders of the input.
  if (!control.is_in_input(marked)) return tokenize(marked.text);
  std::vector<Token> tokens;
  if (adds_bos()) tokens.push_back(bos());
  std::string ordinary;
  const auto finish_ordinary = [&] {
    if (ordinary.empty()) return;
    const std::vector<Token> more = tokens_of(ordinary, false, false);
    tokens.insert(tokens.end(), more.begin(), more.end());
    ordinary.clear();
  };
  const std::string& text = marked.text;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::optional<ControlTokens::Match> match = control.at(text, at);
    if (!match || overlaps_input(marked, at, match->length)) {
      ordinary += text[at++];
      continue;
    }
    if (match->strips_left) ordinary.erase(ordinary.find_last_not_of(white_space) + 1);
    finish_ordinary();
    if (at > 0 || match->token != bos() || !adds_bos())
      tokens.push_back(match->token);  // a BOS written in the text must not become a second one
    at += match->length;
    if (match->strips_right) at = std::min(text.find_first_not_of(white_space, at), text.size());
  }
  finish_ordinary();
  if (adds_eos()) tokens.push_back(eos());
  return tokens;
}

std::vector<Token> Vocabulary::tokens_of(const std::string& text, bool add_special, bool special) const {
  if (text.size() > idx(INT_MAX / 2)) throw std::invalid_argument("the text is longer than 1 GiB");
  const int length = static_cast<int>(text.size());
  std::vector<Token> tokens(text.size() + 8);
  try {
    const AbortsAsErrors guard;
    int count = llama_tokenize(vocab_, text.data(), length, tokens.data(), static_cast<int>(tokens.size()), add_special,
                               special);
    if (count < 0) {  // the buffer was too small; now the size is known
      tokens.resize(idx(-count));
      count = llama_tokenize(vocab_, text.data(), length, tokens.data(), static_cast<int>(tokens.size()), add_special,
                             special);
    }
    tokens.resize(idx(std::max(0, count)));
  } catch (const std::out_of_range&) {  // how SentencePiece reports it
    fail_unknown_bytes();
  } catch (const std::runtime_error& error) {
    throw ModelError(std::string(file_) + ": llama.cpp cannot tokenize with this vocabulary (" +
                     type_name(llama_vocab_type(vocab_)) + "): " + error.what() + "; convert the model to GGUF again");
  }
  if (std::any_of(tokens.begin(), tokens.end(), [](Token token) { return token < 0; })) fail_unknown_bytes();
  return tokens;
}

void Vocabulary::fail_unknown_bytes() const {
  throw ModelError(std::string(file_) + ": the vocabulary (" + type_name(llama_vocab_type(vocab_)) +
                   ") cannot represent the text: it has no tokens for single bytes. Leave out unusual characters, or "
                   "convert the model to GGUF again, with its byte tokens");
}

std::size_t Vocabulary::min_tokens(std::size_t bytes) const {
  const enum llama_vocab_type type = llama_vocab_type(vocab_);
  if (type != LLAMA_VOCAB_TYPE_SPM && type != LLAMA_VOCAB_TYPE_BPE) return 0;  // others normalise the text
  std::size_t longest = 1;
  for (Token id = 0; id < size(); ++id) {
    if ((llama_vocab_get_attr(vocab_, id) & (LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP)) != 0)
      return 0;  // also consume white space
    longest =
        std::max(longest, std::strlen(llama_vocab_get_text(vocab_, id)));  // escaped, so not shorter than its bytes
  }
  return (bytes + longest - 1) / longest;
}

std::string Vocabulary::piece(Token token, bool special) const {
  std::string text;
  piece(token, text, special);
  return text;
}

void Vocabulary::piece(Token token, std::string& text, bool special) const {
  text.resize(32);
  int length = llama_token_to_piece(vocab_, token, text.data(), static_cast<int>(text.size()), 0, special);
  if (length < 0) {
    text.resize(idx(-length));
    length = llama_token_to_piece(vocab_, token, text.data(), static_cast<int>(text.size()), 0, special);
  }
  text.resize(idx(std::max(0, length)));
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
    if (s.one != s.other)
      return differ(std::string("the ") + s.name + " token", token_name(s.one), token_name(s.other));
  }
  if (llama_vocab_get_add_bos(a) != llama_vocab_get_add_bos(b))
    return std::string("only one of the two begins every text with BOS");
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
