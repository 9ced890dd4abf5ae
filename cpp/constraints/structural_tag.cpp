#include "constraints/structural_tag.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/argument.h"
#include "base/json_depth.h"
#include "base/utf8.h"
#include "constraints/gbnf.h"
#include "constraints/limits.h"
#include "constraints/pattern.h"
#include "constraints/schema_grammar.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_formats = 500;

// Without a limit the model might write spaces for ever.
constexpr int max_whitespace = 1;

// The formats that a format is made of, by their places in it.
template <class Visit>
void visit_parts(Json& format, Visit&& visit) {
  for (const char* name : {"begin", "end"}) {  // a tag's begin and end may be tokens
    if (format.contains(name) && format.at(name).is_object()) visit(format.at(name), std::string("/") + name);
  }
  if (format.contains("content")) visit(format.at("content"), "/content");
  for (const char* name : {"elements", "tags"}) {
    if (!format.contains(name)) continue;
    Json& list = format.at(name);
    for (std::size_t i = 0; i < list.size(); ++i) visit(list[i], std::string("/") + name + "/" + std::to_string(i));
  }
  if (!format.contains("rules")) return;
  Json& rules = format.at("rules");  // a trigger and a format each
  for (std::size_t i = 0; i < rules.size(); ++i) visit(rules[i][1], "/rules/" + std::to_string(i) + "/1");
}

std::string tag_of(Json format) { return Json({{"type", "structural_tag"}, {"format", std::move(format)}}).dump(); }

// From 0 to `most`. nlohmann's operators convert an unsigned number above 2^63 into a negative one.
bool is_whole(const Json& value, std::int64_t most) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
}

// The older form, {"structures": [{"begin", "schema", "end"}], "triggers": [...]}.
Json format_of_structures(const Json& tag) {
  Json tags = Json::array();
  for (const Json& structure : tag.at("structures")) {
    if (!structure.is_object() || !structure.contains("schema") || !structure.contains("begin") ||
        !structure.contains("end"))
      throw ArgumentError("structural_tag", "cannot be used: each of /structures has a begin, a schema and an end");
    Json content = {{"type", "json_schema"}, {"json_schema", structure.at("schema")}};
    tags.push_back({{"begin", structure.at("begin")}, {"content", std::move(content)}, {"end", structure.at("end")}});
  }
  return {{"type", "triggered_tags"}, {"triggers", tag.value("triggers", Json::array())}, {"tags", std::move(tags)}};
}

// The place that the client knows. is_older: the format was made of the older form.
std::string in_the_document(std::string pointer, bool is_older) {
  const auto replace = [&](const std::string& ours, const std::string& theirs) {
    if (const std::size_t at = pointer.find(ours); at != std::string::npos) pointer.replace(at, ours.size(), theirs);
  };
  if (is_older && pointer.compare(0, 6, "/tags/") == 0) {
    replace("/tags/", "/structures/");
    replace("/content/json_schema", "/schema");
  }
  return pointer;
}

class Checker {
 public:
  Checker(bool is_strict, Token num_tokens, SupportedStructuralTag& out)
      : is_strict_(is_strict), is_older_(out.is_older), num_tokens_(num_tokens), out_(out) {}

  // Checks a format and converts it to what xgrammar accepts. times: how often it may be repeated.
  void check(Json& format, const std::string& pointer, std::int64_t times, int depth) {
    if (depth > max_constraint_depth)
      fail(pointer, "is nested more than " + std::to_string(max_constraint_depth) + " levels deep");
    if (++num_formats_ > max_formats) fail(pointer, "exceeds the limit of " + std::to_string(max_formats) + " formats");
    if (!format.is_object() || !format.contains("type") || !format.at("type").is_string())
      fail(pointer, R"(is not a format: it must be an object with a type, such as {"type": "any_text"})");
    const std::string type = format.at("type");
    check_members(format, type, pointer);
    if (type == "repeat") times *= count(format, pointer);
    num_places_ += times;
    if (num_places_ > max_counted_places) fail_too_many_places("structural_tag");
    collect(format);
    if (type == "json_schema") check_schema(format, pointer);
    if (type == "regex") check_regex(format, pointer, times);
    if (type == "grammar") check_grammar(format, pointer);
    visit_parts(format, [&](Json& part, const std::string& place) { check(part, pointer + place, times, depth + 1); });
  }

 private:
  [[noreturn]] void fail(const std::string& pointer, const std::string& problem) const {
    const std::string place = in_the_document(pointer, is_older_);
    throw ArgumentError("structural_tag", "cannot be used: " + (place.empty() ? "it" : place) + " " + problem);
  }

  // Runs check() and adds this place to its errors.
  template <class Check>
  auto at(const std::string& pointer, Check&& check) const {
    try {
      return check();
    } catch (const ArgumentError& error) {
      const std::string problem = error.problem(), same = "cannot be used: ";
      fail(pointer, problem.compare(0, same.size(), same) == 0
                        ? "has a part that cannot be used: " + problem.substr(same.size())
                        : problem);
    }
  }

  // What a format of this type must have, and may have. What is a tag may go without its type.
  void check_members(Json& format, const std::string& type, const std::string& pointer) const {
    static const std::map<std::string, std::vector<const char*>> members = {
        {"const_string", {"value"}},
        {"json_schema", {"json_schema"}},
        {"any_text", {}},
        {"any_tokens", {}},
        {"regex", {"pattern"}},
        {"grammar", {"grammar"}},
        {"sequence", {"elements"}},
        {"or", {"elements"}},
        {"optional", {"content"}},
        {"plus", {"content"}},
        {"star", {"content"}},
        {"repeat", {"content", "min", "max"}},
        {"tag", {"begin", "content", "end"}},
        {"triggered_tags", {"triggers", "tags"}},
        {"tags_with_separator", {"tags", "separator"}},
        {"token", {"token"}},
        {"exclude_token", {}},
        {"token_triggered_tags", {"trigger_tokens", "tags"}},
        {"dispatch", {"rules"}},
        {"token_dispatch", {"rules"}}};
    const auto found = members.find(type);
    if (found == members.end())
      fail(pointer + "/type", "is \"" + printable(type) + "\", which is not a type of format");
    for (const char* member : found->second) {
      if (!format.contains(member)) fail(pointer, "has no \"" + std::string(member) + "\"");
    }
    for (const char* list : {"elements", "tags", "triggers", "trigger_tokens", "rules"}) {
      if (!format.contains(list)) continue;
      if (!format.at(list).is_array() || format.at(list).empty())
        fail(pointer + "/" + list, "must be a list that is not empty");
    }
    for (const char* text : {"value", "separator"}) {
      if (format.contains(text) && !format.at(text).is_string()) fail(pointer + "/" + text, "must be a string");
    }
    for (const char* flag : {"at_least_one", "stop_after_first", "loop"}) {
      if (format.contains(flag) && !format.at(flag).is_boolean()) fail(pointer + "/" + flag, "must be true or false");
    }
    for (const char* texts : {"triggers", "excludes"}) {
      if (!format.contains(texts)) continue;
      if (!format.at(texts).is_array()) fail(pointer + "/" + texts, "must be a list of texts");
      check_each(format, texts, pointer, [&](const Json& one, const std::string& place) { check_text(one, place); });
    }
    for (const char* tokens : {"trigger_tokens", "exclude_tokens"}) {
      if (!format.contains(tokens)) continue;
      if (!format.at(tokens).is_array()) fail(pointer + "/" + tokens, "must be a list of tokens");
      check_each(format, tokens, pointer, [&](const Json& one, const std::string& place) { check_token(one, place); });
    }
    if (type == "token") check_token(format.at("token"), pointer + "/token");
    if (type == "tag") check_marks(format, pointer);
    if (format.contains("rules")) check_rules(format.at("rules"), pointer + "/rules", type == "token_dispatch");
    if (format.contains("tags")) check_tags(format, pointer, type);
  }

  void check_text(const Json& value, const std::string& place) const {
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      fail(place, "must be a text that is not empty");
  }
  void check_token(const Json& value, const std::string& place) const {
    const bool is_number = is_whole(value, std::numeric_limits<Token>::max());
    if (!is_number && (!value.is_string() || value.get_ref<const std::string&>().empty()))
      fail(place, "must be a token: its number, or its text");
    if (is_number && value.get<Token>() >= num_tokens_)
      fail(place, "is not a token: the vocabulary has " + std::to_string(num_tokens_));
  }

  template <class Check>
  static void check_each(const Json& format, const char* list, const std::string& pointer, Check&& check) {
    for (std::size_t i = 0; i < format.at(list).size(); ++i)
      check(format.at(list)[i], pointer + "/" + list + "/" + std::to_string(i));
  }

  void check_marks(const Json& tag, const std::string& pointer) const {
    const Json &begin = tag.at("begin"), &end = tag.at("end");
    const auto is_mark = [](const Json& value) {
      return value.is_string() || (value.is_object() && value.value("type", Json()) == "token");
    };
    if (!is_mark(begin)) fail(pointer + "/begin", "must be a text or a token");
    const bool are_ends = end.is_array() && !end.empty() &&
                          std::all_of(end.begin(), end.end(), [](const Json& one) { return one.is_string(); });
    if (!are_ends && !is_mark(end)) fail(pointer + "/end", "must be a text, texts or a token");
  }

  // The [trigger, format] rules of "dispatch" and "token_dispatch".
  void check_rules(const Json& rules, const std::string& pointer, bool are_tokens) const {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::string place = pointer + "/" + std::to_string(i);
      if (!rules[i].is_array() || rules[i].size() != 2) fail(place, "must be a trigger and a format");
      if (are_tokens) check_token(rules[i][0], place + "/0");
      else check_text(rules[i][0], place + "/0");
    }
  }

  // Completes and checks what stands in a list of tags: tags, of which each begins with one trigger, and none is
  // unused.
  void check_tags(Json& format, const std::string& pointer, const std::string& type) const {
    std::set<std::size_t> used;
    for (std::size_t i = 0; i < format.at("tags").size(); ++i) {
      Json& tag = format.at("tags")[i];
      const std::string place = pointer + "/tags/" + std::to_string(i);
      if (tag.is_object() && !tag.contains("type")) tag["type"] = "tag";
      if (tag.is_object() && tag.at("type") != "tag") fail(place + "/type", "must be \"tag\"");
      if (!tag.is_object() || !tag.contains("begin")) continue;  // check() reports it
      const Json& begin = tag.at("begin");
      if (type == "token_triggered_tags" && !begin.is_object()) fail(place + "/begin", "must be a token");
      if (type != "triggered_tags") continue;
      if (!begin.is_string()) fail(place + "/begin", "must be a text");
      const std::vector<std::size_t> triggers = triggers_of(begin, format.at("triggers"));
      if (triggers.empty()) fail(place + "/begin", "begins with none of the triggers");
      if (triggers.size() > 1) fail(place + "/begin", "begins with more than one of the triggers");
      used.insert(triggers.front());
    }
    for (std::size_t i = 0; type == "triggered_tags" && i < format.at("triggers").size(); ++i) {
      if (used.count(i) == 0) fail(pointer + "/triggers/" + std::to_string(i), "is the beginning of no tag");
    }
  }

  static std::vector<std::size_t> triggers_of(const std::string& begin, const Json& triggers) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < triggers.size(); ++i) {
      const std::string trigger = triggers[i];
      if (begin.compare(0, trigger.size(), trigger) == 0) found.push_back(i);
    }
    return found;
  }

  std::int64_t count(const Json& format, const std::string& pointer) const {
    for (const char* name : {"min", "max"}) {
      const Json* value = format.contains(name) ? &format.at(name) : nullptr;
      if (value == nullptr || !is_whole(*value, max_counted_places))
        fail(pointer + "/" + name, "must be a whole number from 0 to " + std::to_string(max_counted_places));
    }
    if (format.at("min") > format.at("max")) fail(pointer + "/max", "must not be below min");
    return std::max<std::int64_t>(1, format.at("max"));
  }

  void collect(const Json& value) {
    for (const char* name : {"begin", "end", "triggers", "value", "token", "trigger_tokens"}) {
      if (value.contains(name)) collect_value(value.at(name));
    }
    if (!value.contains("rules")) return;
    for (const Json& rule : value.at("rules")) collect_value(rule[0]);
  }
  void collect_value(const Json& value) {
    if (value.is_string()) out_.texts.push_back(value);
    if (is_whole(value, std::numeric_limits<Token>::max())) out_.tokens.push_back(value);
    if (!value.is_array()) return;
    for (const Json& one : value) collect_value(one);
  }

  void check_schema(Json& format, const std::string& pointer) {
    if (format.value("style", Json("json")) != "json")
      fail(pointer + "/style", "must be \"json\"; give arguments in another form as tools of a chat");
    if (!format.value("excludes", Json::array()).empty()) fail(pointer + "/excludes", "cannot be used with a schema");
    SchemaStyle style;
    style.is_strict = is_strict_;
    style.is_whole = false;
    style.max_whitespace = max_whitespace;
    if (format.contains("max_whitespace_cnt") && !format.at("max_whitespace_cnt").is_null()) {
      const Json& most = format.at("max_whitespace_cnt");
      if (!is_whole(most, max_counted_places))
        fail(pointer + "/max_whitespace_cnt", "must be a whole number from 0 to " + std::to_string(max_counted_places));
      style.max_whitespace = most;
    }
    const SchemaGrammar grammar =
        at(pointer + "/json_schema", [&] { return schema_grammar(format.at("json_schema").dump(), style); });
    for (const std::string& place : grammar.ignored)
      out_.ignored.push_back(in_the_document(pointer + "/json_schema", is_older_) + place);
    format = {{"type", "grammar"}, {"grammar", "root ::= " + grammar.root + "\n" + grammar.rules}};
  }

  // Becomes a grammar with the automaton that our reader makes of it.
  void check_regex(Json& format, const std::string& pointer, std::int64_t times) const {
    const Json* const text = format.contains("pattern") ? &format.at("pattern") : nullptr;
    if (text == nullptr || !text->is_string()) fail(pointer + "/pattern", "must be a regular expression");
    const std::string regex = *text;
    const std::string rule = at(pointer + "/pattern", [&] {
      check_constraint_text("regex", regex, max_regex_bytes);
      check_nesting_and_counts("regex", "(" + regex + "){" + std::to_string(times) + "}", false);
      try {
        const Pattern pattern(regex, Pattern::Match::whole);
        if (pattern.is_empty()) throw ArgumentError("regex", "cannot be used: no text matches it");
        return pattern.rule_body(Pattern::Text::plain);
      } catch (const PatternError& error) {
        throw ArgumentError("regex",
                            (error.is_valid() ? "cannot be used: " : "is not valid: ") + std::string(error.what()));
      }
    });
    format = {{"type", "grammar"}, {"grammar", "root ::= " + rule}};
  }

  void check_grammar(Json& format, const std::string& pointer) const {
    if (!format.contains("grammar") || !format.at("grammar").is_string())
      fail(pointer + "/grammar", "must be a grammar");
    const std::string grammar = format.at("grammar");
    format["grammar"] = at(pointer + "/grammar", [&] { return xgrammar_text_of(grammar); });
  }

  const bool is_strict_, is_older_;
  const Token num_tokens_;
  SupportedStructuralTag& out_;
  std::int64_t num_places_ = 0;
  int num_formats_ = 0;
};

}  // namespace

SupportedStructuralTag supported_structural_tag(const std::string& text, bool is_strict, Token num_tokens) {
  constexpr const char* name = "structural_tag";
  check_constraint_text(name, text);
  if (json_depth(text) > 8 * max_constraint_depth) throw ArgumentError(name, "is nested too deeply");
  Json tag = Json::parse(text, nullptr, false);
  if (tag.is_discarded()) throw ArgumentError(name, "is not JSON");
  if (!tag.is_object()) throw ArgumentError(name, "must be an object");
  if (tag.contains("type") && tag.at("type") != name)
    throw ArgumentError(name, R"(cannot be used: its type must be "structural_tag")");
  Json format;
  SupportedStructuralTag result;
  result.is_older = !tag.contains("format");
  if (!result.is_older) format = tag.at("format");
  else if (tag.contains("structures") && tag.at("structures").is_array()) format = format_of_structures(tag);
  else throw ArgumentError(name, "cannot be used: it must have a format, or structures and triggers");
  Checker(is_strict, num_tokens, result).check(format, result.is_older ? "" : "/format", 1, 0);
  result.text = tag_of(std::move(format));
  return result;
}

void fail_at_place(const SupportedStructuralTag& tag, const std::string& problem,
                   const std::function<std::string(const std::string& tag)>& problem_of) {
  Json format = Json::parse(tag.text).at("format");
  std::string pointer = tag.is_older ? "" : "/format";
  for (Json *at = &format, *inner = at; inner != nullptr; at = inner) {
    inner = nullptr;
    std::string inner_place;
    visit_parts(*at, [&](Json& part, const std::string& place) {
      if (inner != nullptr || problem_of(tag_of(part)) != problem) return;
      inner = &part;
      inner_place = place;
    });
    pointer += inner_place;
  }
  const std::string place = in_the_document(pointer, tag.is_older);
  throw ArgumentError("structural_tag", "cannot be used: " + (place.empty() ? "it" : place) + " " + problem);
}

}  // namespace specdec
