#include "constraints/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/index.h"

namespace specdec {
namespace {

constexpr int max_exponent_digits = 2;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }  // in UTF-8

int room_for_digits(const JsonLimits& limits, const JsonPlace& place) {
  return (place.in_exponent() ? max_exponent_digits : limits.max_digits) - place.num_digits();
}

// The same text for all equal values.
std::string canonical(const std::string& item) {
  const auto value = nlohmann::json::parse(item, nullptr, false);
  return value.is_discarded() ? item : value.dump();
}

bool begins_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

bool is_value_string(const JsonPlace& place) { return place.in_string() && !place.is_key(); }

int room_in_string(const JsonLimits& limits, const JsonPlace& place) {
  const auto known = limits.max_lengths.find(place.property());
  return (known != limits.max_lengths.end() ? known->second : limits.max_length) - place.length();
}

int characters_before_quote(const std::string& piece) {
  int count = 0;
  for (std::size_t i = 0; i < piece.size() && piece[i] != '"'; ++i) {
    count += begins_character(piece[i]) ? 1 : 0;
    if (piece[i] == '\\') ++i;
  }
  return count;
}

class LimitedJson final : public sampling::Constraint {
 public:
  LimitedJson(std::unique_ptr<sampling::Constraint> grammar, std::shared_ptr<const JsonTokens> tokens,
              JsonLimits limits)
      : grammar_(std::move(grammar)), tokens_(std::move(tokens)), limits_(std::move(limits)), place_(limits_) {}

  int vocabulary_size() const override { return grammar_->vocabulary_size(); }

  void write_mask(std::uint32_t* words) override {
    grammar_->write_mask(words);
    tokens_->keep_within(limits_, place_, words);
  }

  bool advance(Token token) override {
    if (!may_come(token) || !grammar_->advance(token)) return false;
    output_.push_back(token);
    place_.read(tokens_->piece(token));
    return true;
  }

  void truncate(int length) override {
    grammar_->truncate(length);
    output_.resize(idx(length));
    place_ = JsonPlace(limits_);
    for (const Token token : output_) place_.read(tokens_->piece(token));
  }

 private:
  bool may_come(Token token) {
    if (token < 0 || token >= vocabulary_size() || tokens_->allows(limits_, place_, token)) return true;
    sampling::TokenMask mask;
    mask.fill(vocabulary_size(), [this](std::uint32_t* words) { write_mask(words); });
    return mask.contains(token);
  }

  std::unique_ptr<sampling::Constraint> grammar_;
  std::shared_ptr<const JsonTokens> tokens_;
  JsonLimits limits_;
  std::vector<Token> output_;
  JsonPlace place_;
};

}  // namespace

void JsonPlace::read(const std::string& bytes) {
  for (const char c : bytes) {
    if (in_string_) read_in_string(c);
    else read_outside(c);
  }
}

void JsonPlace::read_in_string(char c) {
  if (!item_.empty()) item_ += c;
  if (c == '"' && escape_left_ == 0) {
    in_string_ = false;
    if (is_key_) levels_.back().key = text_;
    if (!item_.empty()) end_item();
    return;
  }
  if (is_key_) text_ += c;
  if (escape_left_ > 0) {
    escape_left_ = c == 'u' && escape_left_ == 1 ? 4 : escape_left_ - 1;
    return;
  }
  if (c == '\\') escape_left_ = 1;
  length_ += begins_character(c) ? 1 : 0;
}

void JsonPlace::read_outside(char c) {
  const bool is_item = in_distinct();
  const bool is_separator = c == ',' || c == ']' || c == '}' || c == ' ' || c == ':';
  if (is_separator && !item_.empty()) end_item();
  if (is_item && !is_separator && c != '[' && c != '{') item_ += c;
  if (c == ',' && !levels_.empty() && levels_.back().distinct != nullptr) {
    const Level& level = levels_.back();
    if (!level.distinct->values.empty() && level.used->size() + added_.size() >= level.distinct->values.size())
      has_repeated_ = true;
  }
  if (is_digit(c)) {
    ++num_digits_;
    return;
  }
  in_exponent_ = ((c == 'e' || c == 'E') && num_digits_ > 0) || (in_exponent_ && (c == '+' || c == '-'));
  num_digits_ = 0;
  if (c == '"') {
    in_string_ = true;
    is_key_ = !levels_.empty() && levels_.back().is_object && levels_.back().expects_key;
    length_ = escape_left_ = 0;
    text_.clear();
  } else if (c == '{' || c == '[') {
    open(c == '{');
  } else if ((c == '}' || c == ']') && !levels_.empty()) {
    levels_.pop_back();
    added_.clear();
  } else if ((c == ':' || c == ',') && !levels_.empty()) {
    levels_.back().expects_key = c == ',';
  }
}

void JsonPlace::open(bool is_object) {
  item_.clear();  // an item with parts belongs to a call: items that must differ have none
  added_.clear();
  const bool is_value = levels_.empty() || levels_.back().is_object;
  const auto& rules = is_object ? limits_->names : limits_->items;
  const auto rule = is_value ? rules.find(levels_.empty() ? "" : levels_.back().key) : rules.end();
  levels_.push_back({is_object, is_object, "", rule == rules.end() ? nullptr : &rule->second,
                     rule == rules.end() ? nullptr : std::make_shared<std::set<std::string>>()});
}

void JsonPlace::end_item() {
  Level& level = levels_.back();
  std::string item = level.distinct->values.empty() ? canonical(item_) : item_;
  item_.clear();
  if (is_used(item)) has_repeated_ = true;
  else (is_trial_ ? added_ : *level.used).insert(std::move(item));
}

JsonPlace JsonPlace::trial() const {
  JsonPlace copy = *this;
  copy.is_trial_ = true;
  return copy;
}

bool JsonPlace::is_used(const std::string& item) const {
  return levels_.back().used->count(item) != 0 || added_.count(item) != 0;
}

bool JsonPlace::has_distinct() const {
  return std::any_of(levels_.begin(), levels_.end(), [](const Level& level) { return level.distinct != nullptr; });
}

bool JsonPlace::in_distinct() const {
  if (levels_.empty() || levels_.back().distinct == nullptr) return false;
  return in_string_ ? !item_.empty() : !levels_.back().is_object || levels_.back().expects_key;
}

bool JsonPlace::has_repeated() const { return has_repeated_ || (!item_.empty() && !can_differ(item_)); }

bool JsonPlace::is_any_string() const {
  return in_string_ && !item_.empty() && levels_.back().distinct->values.empty();
}

bool JsonPlace::may_repeat_string() const {
  const auto value = nlohmann::json::parse(item_ + '"', nullptr, false);
  if (escape_left_ > 0 || value.is_discarded()) return true;  // in the middle of a character
  std::string begin = value.dump();
  begin.pop_back();
  const auto& used = *levels_.back().used;
  const auto next = used.lower_bound(begin);
  return next != used.end() && begins_with(*next, begin);
}

// Whether an item that begins like this can still become one that is not used yet. Strings of any length can, and so
// can integers, except 0 and those that already have the most digits.
bool JsonPlace::can_differ(const std::string& item) const {
  const Level& level = levels_.back();
  const std::vector<std::string>& values = level.distinct->values;
  if (!values.empty()) {
    return std::any_of(values.begin(), values.end(),
                       [&](const std::string& one) { return begins_with(one, item) && !is_used(one); });
  }
  if (item.front() == '"' || item == "-" || !is_used(canonical(item))) return true;
  const auto digits = std::count_if(item.begin(), item.end(), is_digit);
  if (item.back() == '0' && digits == 1) return false;
  if (digits >= limits_->max_digits) return false;
  const std::string all = "0123456789";
  return std::any_of(all.begin(), all.end(), [&](char digit) { return can_differ(item + digit); });
}

const std::string& JsonPlace::property() const {
  static const std::string none;
  const auto object =
      std::find_if(levels_.rbegin(), levels_.rend(), [](const Level& level) { return level.is_object; });
  return object == levels_.rend() ? none : object->key;
}

JsonTokens::JsonTokens(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  characters_.reserve(pieces_.size());
  for (const std::string& piece : pieces_) {
    const auto digits = std::find_if_not(piece.begin(), piece.end(), is_digit) - piece.begin();
    if (digits > 0) digits_.emplace_back(static_cast<Token>(characters_.size()), static_cast<int>(digits));
    most_digits_ = std::max(most_digits_, static_cast<int>(digits));
    const auto quotes = std::count(piece.begin(), piece.end(), '"');
    if (quotes > 0) quoted_.push_back(static_cast<Token>(characters_.size()));
    if (quotes > 1) paired_.push_back(static_cast<Token>(characters_.size()));
    characters_.push_back(characters_before_quote(piece));
    most_characters_ = std::max(most_characters_, characters_.back());
  }
}

int JsonTokens::digits(Token token) const {
  const std::string& text = piece(token);
  return static_cast<int>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

// In the middle of an escape sequence a quote may belong to it.
int JsonTokens::characters(const JsonPlace& place, Token token) const {
  const int left = place.escape_left();
  return left > 0 ? static_cast<int>(piece(token).size()) - left : characters_[idx(token)];
}

bool JsonTokens::allows(const JsonLimits& limits, const JsonPlace& place, Token token) const {
  if (place.has_distinct() && repeats(place, token)) return false;
  if (place.num_digits() > 0) return digits(token) <= room_for_digits(limits, place);
  return !is_value_string(place) || characters(place, token) <= room_in_string(limits, place);
}

void JsonTokens::keep_within(const JsonLimits& limits, const JsonPlace& place, std::uint32_t* words) const {
  if (place.num_digits() > 0) limit_digits(room_for_digits(limits, place), words);
  else if (is_value_string(place)) limit_length(room_in_string(limits, place), place, words);
  if (place.has_distinct()) keep_distinct(place, words);
}

void JsonTokens::limit_length(int room, const JsonPlace& place, std::uint32_t* words) const {
  if (room >= most_characters_) return;
  for (Token token = 0; token < static_cast<Token>(pieces_.size()); ++token) {
    if (characters(place, token) > room) words[idx(token) / 32] &= ~(1u << (token % 32));
  }
}

bool JsonTokens::repeats(const JsonPlace& place, Token token) const {
  JsonPlace next = place.trial();
  next.read(piece(token));
  return next.has_repeated();
}

// Bans tokens that repeat an item or a name, unless all others are banned already: then the text is not from the schema
// with this rule, but a call.
void JsonTokens::keep_distinct(const JsonPlace& place, std::uint32_t* words) const {
  const std::vector<std::uint32_t> all(words, words + (pieces_.size() + 31) / 32);
  const auto drop_if_repeated = [&](Token token) {
    std::uint32_t& word = words[idx(token) / 32];
    const std::uint32_t bit = 1u << (token % 32);
    if ((word & bit) != 0 && repeats(place, token)) word &= ~bit;
  };
  if (place.is_any_string() || !place.in_distinct()) {
    const bool may_end_one = place.is_any_string() && place.may_repeat_string();
    for (const Token token : may_end_one ? quoted_ : paired_) drop_if_repeated(token);
  } else {
    for (Token token = 0; token < static_cast<Token>(pieces_.size()); ++token) drop_if_repeated(token);
  }
  if (std::all_of(words, words + all.size(), [](std::uint32_t word) { return word == 0; }))
    std::copy(all.begin(), all.end(), words);
}

// A number may get more digits if nothing else may follow.
void JsonTokens::limit_digits(int room, std::uint32_t* words) const {
  if (room >= most_digits_) return;
  const std::vector<std::uint32_t> all(words, words + (pieces_.size() + 31) / 32);
  for (const auto& [token, digits] : digits_) {
    if (digits > room) words[idx(token) / 32] &= ~(1u << (token % 32));
  }
  const bool is_empty = std::all_of(words, words + all.size(), [](std::uint32_t word) { return word == 0; });
  if (is_empty) std::copy(all.begin(), all.end(), words);
}

std::unique_ptr<sampling::Constraint> limited_json(std::unique_ptr<sampling::Constraint> grammar,
                                                   std::shared_ptr<const JsonTokens> tokens, JsonLimits limits) {
  return std::make_unique<LimitedJson>(std::move(grammar), std::move(tokens), std::move(limits));
}

}  // namespace specdec
