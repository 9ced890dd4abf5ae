#include "constraints/schema_grammar.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/argument.h"
#include "base/index.h"
#include "base/json_depth.h"
#include "constraints/gbnf.h"
#include "constraints/limits.h"
#include "constraints/schema_nodes.h"

namespace specdec {
namespace {

using Json = SchemaJson;

constexpr std::uint64_t max_grammar_length = 32;  // a longer maxLength is counted while the string is written
constexpr std::uint64_t max_pattern_length = 64;  // of a text that must also match a pattern
constexpr std::uint64_t max_counts = 4096;        // listed properties times their numbers
constexpr std::size_t max_places = 2000;          // of JsonPlaces

// A character of a JSON string, as it is or escaped; surrogates come in pairs.
constexpr const char* character =
    R"re(([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u([0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|)re"
    R"re([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))))re";

// Where nearly any character may come next: for each such place a mask of the whole vocabulary is computed.
std::uint64_t num_open_places(const ByteAutomaton& automaton) {
  constexpr int many = 64;
  std::uint64_t count = 0;
  for (const ByteAutomaton::State& state : automaton.states) {
    int width = 0;
    for (const ByteAutomaton::Edge& edge : state.edges) {
      const int first = std::max<int>(edge.first, 0x20), last = std::min<int>(edge.last, 0x7e);
      width += std::max(0, last - first + 1);
    }
    count += width >= many ? 1 : 0;
  }
  return count;
}

class Writer {
 public:
  Writer(SchemaNodes& nodes, const SchemaStyle& style) : nodes_(nodes), style_(style) {
    if (style.max_whitespace >= 0) {
      const std::string blanks = style_.prefix + "-ws";
      add(blanks, "[ \\n\\t]{0," + std::to_string(style.max_whitespace) + "}");
      comma_ = blanks + " \",\" " + blanks;
      colon_ = blanks + " \":\" " + blanks;
      after_open_ = " " + blanks + " ";
      before_close_ = after_open_;
    }
  }

  // The names of the rules of the roots.
  std::vector<std::string> write() {
    std::vector<std::string> roots;
    for (const int root : nodes_.roots()) roots.push_back(of_node(root));
    while (!open_.empty()) {
      const auto [atom, name] = open_.back();
      open_.pop_back();
      if (const auto* arrays = nodes_.atom(atom).as<SchemaArrays>()) write_array(*arrays, name);
      else write_object(*nodes_.atom(atom).as<SchemaObjects>(), name);
    }
    return roots;
  }

  std::string take_rules() { return std::move(rules_); }
  // Atoms that need a rule that the grammar does not have.
  const std::map<int, std::uint64_t>& long_strings() const { return long_strings_; }

 private:
  void add(const std::string& name, const std::string& body) { rules_ += name + " ::= " + body + "\n"; }
  std::string new_name(const char* kind) { return style_.prefix + "-" + kind + std::to_string(num_rules_++); }
  // A rule with this body, the same for equal bodies.
  std::string shared(const char* kind, const std::string& body) {
    const auto [entry, is_new] = shared_.try_emplace(body);
    if (is_new) {
      entry->second = new_name(kind);
      add(entry->second, body);
    }
    return entry->second;
  }

  std::string of_node(int node) {
    const std::vector<int> atoms = nodes_.atoms(node);
    if (atoms.size() == 1) return of_atom(atoms.front());
    const auto known = nodes_known_.find(node);
    if (known != nodes_known_.end()) return known->second;
    const std::string name = nodes_known_[node] = new_name("any");
    std::string body;
    for (const int atom : atoms) body += (body.empty() ? "" : " | ") + of_atom(atom);
    add(name, body);
    return name;
  }

  std::string of_atom(int number) {
    const auto known = atoms_known_.find(number);
    if (known != atoms_known_.end()) return known->second;
    const SchemaAtom& atom = nodes_.atom(number);
    std::string name;
    if (const auto* values = atom.as<SchemaValues>()) name = of_values(*values);
    else if (const auto* range = atom.as<NumberRange>()) name = of_numbers(*range, atom.place);
    else if (const auto* strings = atom.as<SchemaStrings>()) name = of_strings(*strings, number);
    else open_.emplace_back(number, name = new_name(atom.as<SchemaArrays>() != nullptr ? "array" : "object"));
    return atoms_known_[number] = name;
  }

  std::string of_values(const SchemaValues& values) {
    std::set<std::string> seen;
    std::string body;
    for (const Json& value : values.values) {
      const std::string text = one_line(value);
      if (seen.insert(text).second) body += (body.empty() ? "" : " | ") + gbnf_literal(text);
    }
    return shared("value", body);
  }

  std::string of_numbers(const NumberRange& range, const std::string& place) {
    if (const auto few = few_integers(range, max_listed)) {
      return of_values({std::vector<Json>(few->begin(), few->end())});
    }
    try {
      return shared("number", number_texts(range).rule_body(Pattern::Text::plain));
    } catch (const PatternError& error) {
      SchemaNodes::fail(place, std::string("cannot be written: ") + error.what());
    }
  }

  void count_open_places(std::uint64_t count) {
    num_open_places_ += static_cast<std::int64_t>(count);
    if (num_open_places_ > (style_.source == GrammarSource::client ? max_counted_places : max_our_places))
      fail_too_many_places("json_schema");
  }

  std::string text_rule(const char* kind, const Pattern& pattern) {
    const std::string body = pattern.rule_body(Pattern::Text::json);
    if (shared_.count(body) == 0) count_open_places(num_open_places(pattern.bytes(Pattern::Text::json)));
    return "\"\\\"\" " + shared(kind, body) + " \"\\\"\"";
  }
  std::string any_string() {
    static const std::string body =
        Pattern(std::string(character) + "*", Pattern::Match::whole).rule_body(Pattern::Text::plain);
    return shared("string", "\"\\\"\" " + shared("characters", body) + " \"\\\"\"");
  }
  std::string counted_string(std::uint64_t least, const std::optional<std::uint64_t>& most) {
    if (least == 0 && !most) return any_string();
    if (most && *most == 0) return shared("string", "\"\\\"\\\"\"");
    static const std::string body = Pattern(character, Pattern::Match::whole).rule_body(Pattern::Text::plain);
    const std::string count = "{" + std::to_string(least) + "," + (most ? std::to_string(*most) : "") + "}";
    const std::string text = "\"\\\"\" " + shared("character", body) + count + " \"\\\"\"";
    if (shared_.count(text) == 0) count_open_places(most.value_or(least + 1));
    return shared("string", text);
  }

  std::string of_strings(const SchemaStrings& strings, int atom) {
    const std::string& place = nodes_.atom(atom).place;
    std::optional<std::uint64_t> most = strings.most;
    const std::uint64_t in_grammar = strings.pattern   ? (strings.is_web_address ? 0 : max_pattern_length)
                                     : style_.is_whole ? max_grammar_length
                                                       : std::uint64_t{max_counted_places};
    if (most && *most > in_grammar && *most > strings.least) {
      const bool can_end_anywhere = !strings.pattern || strings.is_web_address;
      if (style_.is_whole && can_end_anywhere) long_strings_[atom] = *most;
      else if (strings.pattern) nodes_.unsupported(strings.most_place, " together with pattern or format");
      else
        nodes_.unsupported(strings.most_place,
                           " above " + std::to_string(max_counted_places) + " in a part of the output");
      most.reset();
    }
    if (!strings.pattern) return counted_string(strings.least, most);
    try {
      Pattern texts = *strings.pattern;
      if (strings.least > 0 || most) texts = texts & Pattern::of_length(strings.least, most);
      return shared("string", text_rule("text", texts));
    } catch (const PatternError& error) {
      SchemaNodes::fail(place, std::string("cannot be written: ") + error.what());
    }
  }

  void write_array(const SchemaArrays& arrays, const std::string& name) {
    std::vector<std::string> first;
    for (const int node : arrays.first) {
      if (!nodes_.has_value(node)) break;
      first.push_back(of_node(node));
    }
    std::optional<std::uint64_t> most = arrays.most;
    std::string item;
    const bool is_cut = first.size() < arrays.first.size();
    if (!is_cut && !arrays.items && first.empty()) item = of_node(any());
    else if (!is_cut && arrays.items && nodes_.has_value(*arrays.items)) item = of_node(*arrays.items);
    else most = std::min<std::uint64_t>(most.value_or(first.size()), first.size());
    if (!arrays.unique_places.empty() && arrays.items) {
      const auto values = nodes_.few_values(*arrays.items);
      const std::uint64_t num_items = first.size() + (values ? values->size() : 0);
      if (values) most = std::min(most.value_or(num_items), num_items);
    }
    // rest(i): after i items.
    const auto counted = [&](std::uint64_t written) {
      const std::uint64_t least = arrays.least > written ? arrays.least - written : 0;
      if (item.empty() || (most && *most <= written)) return std::string("\"\"");
      const std::string more = "(" + comma_ + " " + item + ")";
      if (most) return more + "{" + std::to_string(least) + "," + std::to_string(*most - written) + "}";
      return least == 0 ? more + "*" : more + "{" + std::to_string(least) + ",}";
    };
    std::string inside;
    if (most && *most == 0) {
      inside = "\"\"";
    } else if (first.empty()) {
      inside = item + " " + counted(1);
      if (arrays.least == 0) inside = "(" + inside + ")?";
    } else {
      std::string rest = name + "-" + std::to_string(first.size());
      add(rest, counted(first.size()));
      for (std::size_t i = first.size(); i-- > 0;) {
        const std::string here = i == 0 ? name + "-items" : name + "-" + std::to_string(i);
        const bool may_end = arrays.least <= i, may_go_on = !most || *most > i;
        std::string body;
        if (may_go_on) body = (i == 0 ? "" : comma_ + " ") + first[i] + " " + rest;
        if (may_end) body += body.empty() ? "\"\"" : " | \"\"";
        add(here, body);
        rest = here;
      }
      inside = rest;
    }
    add(name, "\"[\"" + after_open_ + inside + before_close_ + "\"]\"");
  }

  void write_object(const SchemaObjects& objects, const std::string& name) {
    const std::vector<SchemaObjects::Property> members = nodes_.members(objects);
    const std::vector<SchemaNodes::Others> others = nodes_.others(objects);
    std::uint64_t least = objects.least;
    std::uint64_t most = objects.most.value_or(unlimited);
    bool are_few = true;
    std::uint64_t num_names = members.size();
    std::string other;
    for (const SchemaNodes::Others& one : others) {
      are_few = are_few && one.few_names;
      num_names += one.few_names ? one.few_names->size() : 0;
      std::string key;
      if (one.few_names) {
        for (const std::string& text : *one.few_names)
          key += (key.empty() ? "" : " | ") + gbnf_literal(Json(text).dump());
        if (key.empty()) continue;
        key = shared("name", key);
      } else {
        key = one.names ? shared("name", text_rule("text", *one.names)) : any_string();
      }
      other += (other.empty() ? "" : " | ") + key + " " + colon_ + " " + of_node(one.value);
    }
    if (are_few) {
      if (least > num_names) {
        nodes_.unsupported(objects.least_place, " with these names");
        least = num_names;
      }
      most = std::min(most, num_names);
      if (most == members.size() && other.empty()) most = unlimited;  // each is written at most once
    }
    if (!other.empty()) other = shared("other", other);
    std::uint64_t cap = most != unlimited ? most : std::max<std::uint64_t>(1, least);
    if ((cap + 1) * (members.size() + 1) > max_counts) {
      if (!objects.least_place.empty()) nodes_.unsupported(objects.least_place, " with so many properties");
      if (!objects.most_place.empty()) nodes_.unsupported(objects.most_place, " with so many properties");
      least = 0;
      most = unlimited;
      cap = 1;
    }
    std::vector<std::string> texts;  // of a member
    std::vector<std::uint64_t> num_required(members.size() + 1, 0);
    for (const SchemaObjects::Property& member : members)
      texts.push_back(gbnf_literal(Json(member.name).dump()) + " " + colon_ + " " + of_node(member.value));
    for (std::size_t i = members.size(); i-- > 0;)
      num_required[i] = num_required[i + 1] + (members[i].is_required ? 1 : 0);
    // Rule (i, c): what follows members before number i, c of which were written (cap: at least as many, if there is no
    // upper limit).
    const auto rule = [&](std::size_t i, std::uint64_t c) {
      return name + "-" + std::to_string(i) + "-" + std::to_string(c);
    };
    const auto is_possible = [&](std::size_t i, std::uint64_t c) {
      const bool can_fill = !other.empty() || c + (members.size() - i) >= least;
      return c <= cap && can_fill && c + num_required[i] <= most;
    };
    const auto more = [&](std::uint64_t c) { return most != unlimited ? c + 1 : std::min(c + 1, cap); };
    const auto after_comma = [&](std::uint64_t c, const std::string& text) {
      return c == 0 ? text : comma_ + " " + text;
    };
    std::set<std::pair<std::size_t, std::uint64_t>> wanted = {{0, 0}};
    for (std::size_t i = 0; i <= members.size(); ++i) {
      for (auto at = wanted.lower_bound({i, 0}); at != wanted.end() && at->first == i; ++at) {
        const std::uint64_t c = at->second;
        const auto use = [&](std::size_t next, std::uint64_t count) {
          wanted.insert({next, count});
          return rule(next, count);
        };
        std::string body;
        const auto alternative = [&](const std::string& text) { body += (body.empty() ? "" : " | ") + text; };
        if (i < members.size()) {
          const bool can_take = is_possible(i + 1, more(c)),
                     can_skip = !members[i].is_required && is_possible(i + 1, c);
          if (can_take && can_skip && more(c) == c) {
            alternative("(" + after_comma(c, texts[i]) + ")? " + use(i + 1, c));
          } else {
            if (can_take) alternative(after_comma(c, texts[i]) + " " + use(i + 1, more(c)));
            if (can_skip) alternative(use(i + 1, c));
          }
        } else if (!other.empty() && more(c) == c) {
          alternative("(" + comma_ + " " + other + ")*");
        } else {
          if (c >= least) alternative("\"\"");
          if (!other.empty() && is_possible(i, more(c)) && c < most)
            alternative(after_comma(c, other) + " " + use(i, more(c)));
        }
        add(rule(i, c), body);
      }
    }
    add(name, "\"{\"" + after_open_ + rule(0, 0) + before_close_ + "\"}\"");
  }

  int any() { return 0; }  // SchemaNodes makes the node of all values first

  static constexpr std::int64_t max_listed = 16;  // numbers that are written as a list
  SchemaNodes& nodes_;
  const SchemaStyle& style_;
  std::string rules_;
  std::string comma_ = "\", \"", colon_ = "\": \"", after_open_ = " ", before_close_ = " ";
  std::map<int, std::string> nodes_known_, atoms_known_;
  std::map<std::string, std::string> shared_;  // rules by body
  std::vector<std::pair<int, std::string>> open_;
  std::map<int, std::uint64_t> long_strings_;
  std::int64_t num_open_places_ = 0;
  int num_rules_ = 0;
};

// Finds, for each place of the output, the rules that the grammar does not have. A place is known by the atoms that may
// stand there; a rule holds only if all of them have it.
class PlaceFinder {
 public:
  PlaceFinder(SchemaNodes& nodes, const Writer& writer, bool is_whole)
      : nodes_(nodes), long_strings_(writer.long_strings()), is_whole_(is_whole) {}

  JsonPlaces find() {
    for (const int root : nodes_.roots()) place_of(nodes_.atoms(root));
    for (std::size_t i = 0; i < keys_.size(); ++i) fill(static_cast<int>(i));
    if (!has_rule_) return {};
    return std::move(places_);
  }

 private:
  int place_of(std::vector<int> atoms) {
    std::sort(atoms.begin(), atoms.end());
    atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
    const auto [entry, is_new] = numbers_.try_emplace(atoms, static_cast<int>(keys_.size()));
    if (!is_new) return entry->second;
    if (keys_.size() >= max_places) SchemaNodes::fail("", "has too many places");
    keys_.push_back(std::move(atoms));
    places_.places.emplace_back();
    return entry->second;
  }

  void fill(int number) {
    JsonPlaces::Place place;
    const std::vector<int> atoms = keys_[idx(number)];
    fill_length(atoms, place);
    std::vector<const SchemaArrays*> arrays;
    std::vector<const SchemaObjects*> objects;
    for (const int atom : atoms) {
      if (const auto* one = nodes_.atom(atom).as<SchemaArrays>()) arrays.push_back(one);
      if (const auto* one = nodes_.atom(atom).as<SchemaObjects>()) objects.push_back(one);
    }
    fill_array(arrays, place);
    fill_object(objects, place);
    has_rule_ = has_rule_ || place.max_length != JsonPlaces::no_limit || place.items || place.names;
    places_.places[idx(number)] = std::move(place);
  }

  void fill_length(const std::vector<int>& atoms, JsonPlaces::Place& place) {
    std::optional<std::uint64_t> longest;  // of all strings here; nullopt: any
    bool is_limited = false, is_any = false;
    for (const int atom : atoms) {
      const auto limit = long_strings_.find(atom);
      const auto* strings = nodes_.atom(atom).as<SchemaStrings>();
      if (limit != long_strings_.end()) {
        is_limited = true;
        longest = std::max(longest.value_or(0), limit->second);
      } else if (strings != nullptr) {
        if (strings->most) longest = std::max(longest.value_or(0), *strings->most);
        else is_any = true;
      }
    }
    if (!is_limited) return;
    for (const int atom : atoms) {
      const auto limit = long_strings_.find(atom);
      if (limit != long_strings_.end() && (is_any || limit->second < *longest))
        nodes_.unsupported(nodes_.atom(atom).as<SchemaStrings>()->most_place, " where another string may be longer");
    }
    if (!is_any) place.max_length = static_cast<int>(std::min<std::uint64_t>(*longest, JsonPlaces::no_limit));
  }

  void ignore_all(const std::vector<std::string>& places, const std::string& where) {
    for (const std::string& place : places) nodes_.unsupported(place, where);
  }

  void fill_array(const std::vector<const SchemaArrays*>& arrays, JsonPlaces::Place& place) {
    std::set<std::vector<std::string>> rules;
    bool all_have_one = true;
    for (const SchemaArrays* one : arrays) {
      const bool is_unique = !one->unique_places.empty();
      const auto values = is_unique && one->items ? nodes_.few_values(*one->items) : std::nullopt;
      const bool can_differ =
          is_whole_ && one->first.empty() && one->items && (values || (is_unique && nodes_.is_endless(*one->items)));
      if (is_unique && !can_differ) ignore_all(one->unique_places, " for these items");
      if (is_unique && can_differ) rules.insert(values.value_or(std::vector<std::string>()));
      else all_have_one = false;
    }
    if (rules.size() == 1 && all_have_one) place.items = Distinct{*rules.begin()};
    else if (!rules.empty()) {
      for (const SchemaArrays* one : arrays) ignore_all(one->unique_places, " where another array may stand");
    }
    std::size_t num_first = 0;
    for (const SchemaArrays* one : arrays) num_first = std::max(num_first, one->first.size());
    for (std::size_t i = 0; i <= num_first; ++i) {
      std::vector<int> atoms;
      for (const SchemaArrays* one : arrays) {
        const std::optional<int> node = i < one->first.size() ? one->first[i] : one->items;
        if (node) add(*node, atoms);
      }
      const int item = atoms.empty() ? -1 : place_of(std::move(atoms));
      if (i < num_first) place.first.push_back(item);
      else place.items_place = item;
    }
  }

  void fill_object(const std::vector<const SchemaObjects*>& objects, JsonPlaces::Place& place) {
    std::vector<int> others;
    std::set<std::string> names;
    std::set<std::vector<std::string>> rules;
    bool all_have_one = true;
    for (const SchemaObjects* one : objects) {
      bool are_few = true;
      std::vector<std::string> few;
      const auto members = nodes_.members(*one);
      const auto more = nodes_.others(*one);
      for (const auto& member : members) {
        names.insert(member.name);
        few.push_back(Json(member.name).dump());
      }
      for (const SchemaNodes::Others& other : more) {
        add(other.value, others);
        are_few = are_few && other.few_names;
        for (const std::string& name : other.few_names.value_or(std::vector<std::string>()))
          few.push_back(Json(name).dump());
      }
      const bool is_needed = one->least > 1 && !more.empty();
      const bool are_free =
          std::all_of(more.begin(), more.end(), [](const SchemaNodes::Others& other) { return other.are_free; });
      if (is_needed && !are_few && !are_free) {
        nodes_.unsupported(one->least_place, " above 1 with these names");
        all_have_one = false;
        continue;
      }
      if (!more.empty() && (is_needed || are_few)) rules.insert(are_few ? few : std::vector<std::string>());
      else all_have_one = false;
      if (is_needed && !is_whole_) nodes_.unsupported(one->least_place, " above 1 in a part of the output");
    }
    if (rules.size() == 1 && all_have_one && is_whole_) {
      place.names = Distinct{*rules.begin()};
    } else if (is_whole_) {
      for (const SchemaObjects* one : objects) {
        if (one->least > 1 && !nodes_.others(*one).empty())
          nodes_.unsupported(one->least_place, " above 1 where another object may stand");
      }
    }
    const int others_place = others.empty() ? -1 : place_of(others);
    place.others = others_place;
    for (const std::string& name : names) {
      std::vector<int> atoms;
      for (const SchemaObjects* one : objects) {
        const SchemaObjects::Property* const property = one->find(name);
        if (property != nullptr) {
          add(property->value, atoms);
        } else {
          for (const SchemaNodes::Others& other : nodes_.others(*one)) add(other.value, atoms);
        }
      }
      std::string text = Json(name).dump();
      if (!atoms.empty()) place.members[text.substr(1, text.size() - 2)] = place_of(std::move(atoms));
    }
  }

  void add(int node, std::vector<int>& atoms) {
    const std::vector<int> some = nodes_.atoms(node);
    atoms.insert(atoms.end(), some.begin(), some.end());
  }

  SchemaNodes& nodes_;
  const std::map<int, std::uint64_t>& long_strings_;
  const bool is_whole_;
  std::map<std::vector<int>, int> numbers_;
  std::vector<std::vector<int>> keys_;
  JsonPlaces places_;
  bool has_rule_ = false;
};

Json parsed(const std::string& text, GrammarSource source) {
  check_constraint_text("json_schema", text, source == GrammarSource::client ? max_constraint_bytes : max_our_bytes);
  if (json_depth(text) > 4 * max_constraint_depth) throw ArgumentError("json_schema", "is nested too deeply");
  Json schema = Json::parse(text, nullptr, false);
  if (schema.is_discarded()) throw ArgumentError("json_schema", "is not JSON");
  return schema;
}

// What is made of several patterns may be too large where no single one is.
template <class Action>
auto with_states(Action&& action) {
  try {
    return action();
  } catch (const PatternError& error) {
    throw ArgumentError("json_schema",
                        std::string("cannot be used: the schema with its patterns put together ") + error.what());
  }
}

}  // namespace

SchemaGrammar schema_grammar(const std::string& text, const SchemaStyle& style) {
  return with_states([&] {
    Json schema = parsed(text, style.source);
    if (schema == Json::object()) schema = {{"type", "object"}};
    SchemaNodes nodes(schema, style.is_strict, style.source);
    Writer writer(nodes, style);
    SchemaGrammar grammar;
    grammar.root = writer.write().front();
    grammar.places = PlaceFinder(nodes, writer, style.is_whole).find();
    grammar.rules = writer.take_rules();
    grammar.ignored = nodes.ignored();
    return grammar;
  });
}

SchemaParts schema_parts(const std::string& document, const std::vector<std::string>& pointers,
                         const SchemaStyle& style) {
  return with_states([&] {
    const Json schemas = parsed(document, style.source);
    SchemaNodes nodes(schemas, style.is_strict, style.source, pointers);
    Writer writer(nodes, style);
    SchemaParts parts;
    parts.roots = writer.write();
    (void)PlaceFinder(nodes, writer, false).find();  // names rules that a grammar cannot express
    parts.rules = writer.take_rules();
    parts.ignored = nodes.ignored();
    return parts;
  });
}

}  // namespace specdec
