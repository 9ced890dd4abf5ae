#include "constraints/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/index.h"

namespace specdec {
namespace {

// Of an integer that must differ from others: as many as the grammar of integers allows.
constexpr int max_digits = 16;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }  // in UTF-8

// The same text for all equal values.
std::string canonical(const std::string& item) {
  const auto value = nlohmann::json::parse(item, nullptr, false);
  return value.is_discarded() ? item : value.dump();
}

bool begins_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

bool is_value_string(const JsonPlace& place) { return place.in_string() && !place.is_key(); }

int room_in_string(const JsonPlace& place) { return place.max_length() - place.length(); }

// The characters that begin in the piece before its first quote. escape_left: its first bytes end an escape sequence.
int characters_before_quote(const std::string& piece, int escape_left) {
  int count = 0;
  for (const char c : piece) {
    if (escape_left > 0) {
      escape_left = c == 'u' && escape_left == 1 ? 4 : escape_left - 1;
      continue;
    }
    if (c == '"') break;
    if (c == '\\') escape_left = 1;
    count += begins_character(c) ? 1 : 0;
  }
  return count;
}

class LimitedJson final : public sampling::Constraint {
 public:
  LimitedJson(std::unique_ptr<sampling::Constraint> grammar, std::shared_ptr<const JsonTokens> tokens,
              JsonPlaces places)
      : grammar_(std::move(grammar)),
        tokens_(std::move(tokens)),
        places_(std::move(places)),
        after_{JsonPlace(places_)} {}

  int vocabulary_size() const override { return grammar_->vocabulary_size(); }

  void write_mask(std::uint32_t* words) override {
    grammar_->write_mask(words);
    tokens_->keep_within(after_.back(), words);
  }

  bool advance(Token token) override {
    if (!may_come(token) || !grammar_->advance(token)) return false;
    JsonPlace next = after_.back();
    next.read(tokens_->piece(token));
    after_.push_back(std::move(next));
    return true;
  }

  void truncate(int length) override {
    grammar_->truncate(length);
    after_.erase(after_.begin() + length + 1, after_.end());
  }

 private:
  bool may_come(Token token) {
    if (token < 0 || token >= vocabulary_size() || tokens_->allows(after_.back(), token)) return true;
    sampling::TokenMask mask;
    mask.fill(vocabulary_size(), [this](std::uint32_t* words) { write_mask(words); });
    return mask.contains(token);
  }

  std::unique_ptr<sampling::Constraint> grammar_;
  std::shared_ptr<const JsonTokens> tokens_;
  JsonPlaces places_;
  std::vector<JsonPlace> after_;  // [i]: after i tokens
};

}  // namespace

bool WrittenItems::has(const std::string& item, int count) const {
  const auto found = numbers_.find(item);
  return found != numbers_.end() && found->second < count;
}

bool WrittenItems::has_beginning(const std::string& begin, int count) const {
  for (auto at = numbers_.lower_bound(begin); at != numbers_.end() && begins_with(at->first, begin); ++at) {
    if (at->second < count) return true;
  }
  return false;
}

void WrittenItems::add(std::string item, int count) {
  for (; order_.size() > idx(count); order_.pop_back()) numbers_.erase(order_.back());
  const auto [entry, is_new] = numbers_.emplace(std::move(item), count);
  if (is_new) order_.push_back(entry);
}

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
    if (is_key_) {
      const JsonPlaces::Place* const object = places_->at(levels_.back().place);
      const auto member =
          object == nullptr ? std::map<std::string, int>::const_iterator() : object->members.find(text_);
      if (object != nullptr) child_ = member == object->members.end() ? object->others : member->second;
    }
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
  if (c == ',' && !levels_.empty()) {
    Level& level = levels_.back();
    if (level.distinct != nullptr && !level.distinct->values.empty() &&
        idx(level.num_used) + added_.size() >= level.distinct->values.size())
      has_repeated_ = true;
    ++level.index;
    begin_item();
  }
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
  const JsonPlaces::Place* const place = places_->at(child_);
  const Distinct* distinct = nullptr;
  if (place != nullptr && (is_object ? place->names : place->items))
    distinct = is_object ? &*place->names : &*place->items;
  levels_.push_back(
      {is_object, is_object, child_, 0, distinct, distinct == nullptr ? nullptr : std::make_shared<WrittenItems>(), 0});
  begin_item();
}

// Sets child_ for the next item of an array.
void JsonPlace::begin_item() {
  const Level& level = levels_.back();
  const JsonPlaces::Place* const place = places_->at(level.place);
  child_ = -1;
  if (place == nullptr || level.is_object) return;
  child_ = idx(level.index) < place->first.size() ? place->first[idx(level.index)] : place->items_place;
}

int JsonPlace::max_length() const {
  const JsonPlaces::Place* const place = places_->at(child_);
  return place == nullptr || is_key_ ? JsonPlaces::no_limit : place->max_length;
}

void JsonPlace::end_item() {
  Level& level = levels_.back();
  std::string item = level.distinct->values.empty() ? canonical(item_) : item_;
  item_.clear();
  if (is_used(item)) has_repeated_ = true;
  else if (is_trial_) added_.push_back(std::move(item));
  else level.used->add(std::move(item), level.num_used++);
}

JsonPlace JsonPlace::trial() const {
  JsonPlace copy = *this;
  copy.is_trial_ = true;
  return copy;
}

bool JsonPlace::is_used(const std::string& item) const {
  return levels_.back().used->has(item, levels_.back().num_used) ||
         std::find(added_.begin(), added_.end(), item) != added_.end();
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
  return levels_.back().used->has_beginning(begin, levels_.back().num_used);
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
  const auto digits = std::count_if(item.begin(), item.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (item.back() == '0' && digits == 1) return false;
  if (digits >= max_digits) return false;
  const std::string all = "0123456789";
  return std::any_of(all.begin(), all.end(), [&](char digit) { return can_differ(item + digit); });
}

JsonTokens::JsonTokens(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  characters_.reserve(pieces_.size());
  for (const std::string& piece : pieces_) {
    const auto quotes = std::count(piece.begin(), piece.end(), '"');
    if (quotes > 0) quoted_.push_back(static_cast<Token>(characters_.size()));
    if (quotes > 1) paired_.push_back(static_cast<Token>(characters_.size()));
    characters_.push_back(characters_before_quote(piece, 0));
    most_characters_ = std::max(most_characters_, characters_.back());
  }
}

int JsonTokens::characters(const JsonPlace& place, Token token) const {
  if (place.escape_left() == 0) return characters_[idx(token)];
  return characters_before_quote(piece(token), place.escape_left());
}

bool JsonTokens::allows(const JsonPlace& place, Token token) const {
  if (place.has_distinct() && repeats(place, token)) return false;
  return !is_value_string(place) || characters(place, token) <= room_in_string(place);
}

void JsonTokens::keep_within(const JsonPlace& place, std::uint32_t* words) const {
  if (is_value_string(place)) limit_length(place, words);
  if (place.has_distinct()) keep_distinct(place, words);
}

void JsonTokens::limit_length(const JsonPlace& place, std::uint32_t* words) const {
  const int room = room_in_string(place);
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

std::unique_ptr<sampling::Constraint> limited_json(std::unique_ptr<sampling::Constraint> grammar,
                                                   std::shared_ptr<const JsonTokens> tokens, JsonPlaces places) {
  return std::make_unique<LimitedJson>(std::move(grammar), std::move(tokens), std::move(places));
}

}  // namespace specdec
