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

// Elements of HTML that vocabularies have as user-defined tokens (Gemma's): text like any other.
constexpr const char* html_elements =
    " a abbr article aside b blockquote body br button caption code col colgroup dd del details div dl dt em "
    "figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins label li link main mark meta nav "
    "ol "
    "option p pre q s script section select small span strong style sub summary sup svg table tbody td textarea tfoot "
    "th "
    "thead title tr u ul video ";

// Whether a user-defined token is a mark, such as <tool_call>, <|channel> or [THINK]: it means something only where a
// chat template writes it. Others stand for text: runs of white space, emoji, elements of HTML.
bool is_mark(const std::string& text) {
  if (text.size() < 3 || text.find_first_of(white_space) != std::string::npos) return false;
  if (!(text.front() == '<' && text.back() == '>') && !(text.front() == '[' && text.back() == ']')) return false;
  std::string name = text.substr(1, text.size() - 2);
  if (name.front() == '/') name.erase(0, 1);
  return text.front() == '[' || std::strstr(html_elements, (" " + name + " ").c_str()) == nullptr;
}

bool is_mark(const llama_vocab* vocab, Token token) {
  return (llama_vocab_get_attr(vocab, token) & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0 &&
         is_mark(llama_vocab_get_text(vocab, token));
}

// The tokens that are recognised in a text only on request: control tokens and marks, by the first byte of their texts,
// longest first.
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
      const bool is_control = (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
      if (!is_control && !is_mark(vocab, id)) continue;
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

std::vector<Token> Vocabulary::tokenize(const MarkedText& marked, Part part) const {
  if (marked.input.empty()) return tokenize(marked.text, true, part);
  const ControlTokens control(vocab_);
  // In one piece if possible: ordinary tokens may cross the borders of the input.
  if (!control.is_in_input(marked)) return tokenize(marked.text, true, part);
  std::vector<Token> tokens;
  const bool begins = adds_bos() && part != Part::middle;
  if (begins) tokens.push_back(bos());
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
    if (at > 0 || match->token != bos() || !begins)
      tokens.push_back(match->token);  // a BOS written in the text must not become a second one
    at += match->length;
    if (match->strips_right) at = std::min(text.find_first_not_of(white_space, at), text.size());
  }
  finish_ordinary();
  if (adds_eos() && part == Part::whole) tokens.push_back(eos());
  return tokens;
}

// llama.cpp recognises user-defined tokens in any text. Marks among them are cut after their first character, and the
// parts are tokenized one by one.
std::vector<Token> Vocabulary::tokens_of(const std::string& text, bool add_special, bool special) const {
  std::vector<std::size_t> cuts;
  if (!special && text.find_first_of("<[") != std::string::npos) cuts = cuts_of_marks(text);
  if (cuts.empty()) return tokens_of_part(text, add_special, special);
  std::vector<Token> tokens = tokens_of_part(text.substr(0, cuts[0]), add_special, special);
  if (add_special && adds_eos() && !tokens.empty() && tokens.back() == eos()) tokens.pop_back();
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::size_t end = i + 1 < cuts.size() ? cuts[i + 1] : text.size();
    const std::vector<Token> more = tokens_of_continuation(text.substr(cuts[i], end - cuts[i]));
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  if (add_special && adds_eos()) tokens.push_back(eos());
  return tokens;
}

std::vector<std::size_t> Vocabulary::cuts_of_marks(const std::string& text) const {
  std::vector<std::string> marks;
  for (Token id = 0; id < size(); ++id) {
    if (is_mark(vocab_, id)) marks.emplace_back(llama_vocab_get_text(vocab_, id));
  }
  std::vector<std::size_t> cuts;
  for (std::size_t at = text.find_first_of("<["); at != std::string::npos; at = text.find_first_of("<[", at + 1)) {
    const auto is_here = [&](const std::string& mark) { return text.compare(at, mark.size(), mark) == 0; };
    if (std::any_of(marks.begin(), marks.end(), is_here)) cuts.push_back(at + 1);
  }
  return cuts;
}

// SentencePiece begins every text with a space. A line break before the part takes it, and both are dropped again.
std::vector<Token> Vocabulary::tokens_of_continuation(const std::string& text) const {
  if (llama_vocab_type(vocab_) != LLAMA_VOCAB_TYPE_SPM) return tokens_of_part(text, false, false);
  std::vector<Token> tokens = tokens_of_part("\n" + text, false, false);
  std::string begun;
  for (std::size_t i = 0; i < tokens.size() && begun.size() < 2; ++i) {
    begun += piece(tokens[i]);
    if (begun != "\n" && begun != " \n") continue;
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i + 1));
    return tokens;
  }
  return tokens_of_part(text, false, false);
}

std::vector<Token> Vocabulary::tokens_of_part(const std::string& text, bool add_special, bool special) const {
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
