#include "engine/request_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/argument.h"

namespace specdec {
namespace {

// llama.cpp's.
const std::vector<std::string> default_breakers = {"\n", ":", "\"", "*"};
constexpr std::size_t max_breaker_bytes = 40, max_rest_tokens = 20;

}  // namespace

RequestTokens::RequestTokens(Vocabulary vocabulary, int num_tokens) : vocabulary_(vocabulary), num_tokens_(num_tokens) {
  for (Token token = 0; token < std::min(num_tokens, vocabulary.size()); ++token) {
    if (vocabulary.is_end_of_generation(token)) ends_.push_back(token);
  }
}

sampling::TokenRules RequestTokens::rules(const Request& request, int num_prompt) {
  check_bias(request.sampling.logit_bias);
  check_ids("stop_token_ids", request.stop_token_ids);
  check_ids("allowed_token_ids", request.allowed_token_ids);
  sampling::TokenRules rules;
  rules.allowed = request.allowed_token_ids;
  rules.banned = banned(request.bad_words);
  if (request.ignore_eos) rules.early_bans.push_back({ends_, std::numeric_limits<int>::max()});
  if (request.min_tokens > 0) {
    std::vector<Token> ends = ends_;
    ends.insert(ends.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
    const int most = std::numeric_limits<int>::max() - num_prompt;
    rules.early_bans.push_back({std::move(ends), num_prompt + std::min(request.min_tokens, most)});
  }
  if (request.sampling.dry.is_on())
    rules.dry_breakers = dry_breakers(request.dry_sequence_breakers.value_or(default_breakers));
  return rules;
}

std::vector<Token> RequestTokens::prediction(const Request& request) const {
  if (request.prediction.empty()) return {};
  return vocabulary_.tokenize(request.prediction, false, Vocabulary::Part::middle);
}

void RequestTokens::check_ids(const char* option, const std::vector<Token>& tokens) const {
  const Range ids = whole_numbers(0, num_tokens_ - 1);
  for (const Token token : tokens) {
    if (!ids.contains(token))
      throw ArgumentError(option, "has the token " + std::to_string(token) + "; it must be " + ids.text());
  }
}

void RequestTokens::check_bias(const sampling::LogitBias& logit_bias) const {
  std::set<Token> banned;
  for (const auto& [token, bias] : logit_bias) {
    check_ids("logit_bias", {token});
    if (std::isinf(bias)) banned.insert(token);
  }
  if (static_cast<int>(banned.size()) == num_tokens_) throw ArgumentError("logit_bias", "bans every token");
}

// The tokens of each word at the beginning of a text, and after a blank.
RequestTokens::Texts RequestTokens::banned(const std::vector<std::string>& words) const {
  Texts texts;
  for (const std::string& word : words) {
    if (word.empty()) throw ArgumentError("bad_words", "has an empty text; leave it out");
    for (const std::string& text : {word, " " + word}) {
      std::vector<Token> tokens = vocabulary_.tokenize(text, false, Vocabulary::Part::middle);
      if (!tokens.empty() && std::find(texts.begin(), texts.end(), tokens) == texts.end())
        texts.push_back(std::move(tokens));
    }
  }
  return texts;
}

RequestTokens::Texts RequestTokens::dry_breakers(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.empty()) throw ArgumentError("dry_sequence_breakers", "has an empty text; leave it out");
    if (text.size() > max_breaker_bytes) {
      throw ArgumentError("dry_sequence_breakers", "has a text of " + std::to_string(text.size()) + " bytes; at most " +
                                                       std::to_string(max_breaker_bytes) + " are allowed");
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (breaker_texts_ != texts) {
    Texts breakers;
    for (const std::string& text : texts) add_breakers(text, breakers);
    breakers_ = std::move(breakers);
    breaker_texts_ = texts;
  }
  return breakers_;
}

// Adds each token that contains the text, and each token that ends with a beginning of it, followed by the tokens of
// its rest.
void RequestTokens::add_breakers(const std::string& text, Texts& breakers) const {
  std::string piece;
  for (Token token = 0; token < std::min(num_tokens_, vocabulary_.size()); ++token) {
    vocabulary_.piece(token, piece, true);
    if (piece.find(text) != std::string::npos) {
      breakers.push_back({token});
      continue;
    }
    for (std::size_t begin = 0; begin < piece.size(); ++begin) {
      const std::size_t common = piece.size() - begin;
      if (common >= text.size() || piece.compare(begin, common, text, 0, common) != 0) continue;
      std::vector<Token> sequence = {token};
      const std::vector<Token> rest = vocabulary_.tokenize(text.substr(common), false, Vocabulary::Part::middle);
      const auto count = static_cast<std::ptrdiff_t>(std::min(rest.size(), max_rest_tokens));
      sequence.insert(sequence.end(), rest.begin(), rest.begin() + count);
      breakers.push_back(std::move(sequence));
    }
  }
}

}  // namespace specdec
