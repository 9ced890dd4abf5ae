#include "chat/conversation_form.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* between = "\n\n";  // messages that become one

std::string role_of(const Json& message) {
  if (!message.is_object()) return "";
  const auto role = message.find("role");
  return role != message.end() && role->is_string() ? role->get<std::string>() : "";
}

bool has_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

// The text of a field; null if it is not a text. A missing field and null are the empty text.
const std::string* text_of(const Json& message, const char* field) {
  static const std::string empty;
  const auto text = message.find(field);
  if (text == message.end() || text->is_null()) return &empty;
  return text->is_string() ? text->get_ptr<const std::string*>() : nullptr;
}

bool is_text(const Json& message) { return text_of(message, "content") != nullptr; }

void append(Json& message, const char* field, const Json& from) {
  const std::string *own = text_of(message, field), *more = text_of(from, field);
  if (own == nullptr || more == nullptr || more->empty()) return;
  message[field] = own->empty() ? *more : *own + between + *more;
}

// Whether `next` can be written at the end of `message`.
bool can_merge(const Json& message, const Json& next) {
  return role_of(message) == role_of(next) && is_text(message) && is_text(next) && !has_calls(message) &&
         text_of(message, "reasoning_content") != nullptr && text_of(next, "reasoning_content") != nullptr;
}

void merge(Json& message, const Json& next) {
  append(message, "reasoning_content", next);
  append(message, "content", next);
  if (has_calls(next)) message["tool_calls"] = next["tool_calls"];
}

Json merged_in_a_row(const Json& messages, const std::string& role) {
  Json result = Json::array();
  for (const Json& message : messages) {
    const bool is_more = !result.empty() && role_of(message) == role && can_merge(result.back(), message);
    if (is_more) merge(result.back(), message);
    else result.push_back(message);
  }
  return result;
}

Json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

// The systems' messages at the beginning.
std::size_t num_first_systems(const Json& messages) {
  std::size_t count = 0;
  while (count < messages.size() && role_of(messages[count]) == "system") ++count;
  return count;
}

// Later messages of the system, behind the results of calls that they interrupt. as_users: they become the user's.
Json with_late_systems(const Json& messages, bool as_users) {
  const std::size_t num_first = num_first_systems(messages);
  Json result = Json::array();
  std::vector<Json> waiting;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool is_late = i >= num_first && role_of(messages[i]) == "system";
    if (is_late) {
      waiting.push_back(messages[i]);
      if (as_users) waiting.back()["role"] = "user";
      std::size_t next = i + 1;
      while (next < messages.size() && role_of(messages[next]) == "system") ++next;
      if (next < messages.size() && role_of(messages[next]) == "tool") continue;
    } else {
      result.push_back(messages[i]);
      if (i + 1 < messages.size() && role_of(messages[i + 1]) == "tool") continue;
      if (i + 1 < messages.size() && role_of(messages[i + 1]) == "system") continue;
    }
    for (Json& one : waiting) result.push_back(std::move(one));
    waiting.clear();
  }
  return result;
}

// Nine letters and digits, as some templates demand. 64 bits of FNV-1a choose them, so that ids differ.
std::string short_id(const std::string& id) {
  static constexpr char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t length = 9;
  const auto is_fine = [](char c) { return std::string(letters).find(c) != std::string::npos; };
  if (id.size() == length && std::all_of(id.begin(), id.end(), is_fine)) return id;
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string result;
  for (std::size_t i = 0; i < length; ++i, hash /= sizeof letters - 1) result += letters[hash % (sizeof letters - 1)];
  return result;
}

void shorten_ids(Json& messages) {
  const auto shorten = [](Json& object, const char* field) {
    if (!object.is_object()) return;
    const auto id = object.find(field);
    if (id != object.end() && id->is_string()) *id = short_id(id->get<std::string>());
  };
  for (Json& message : messages) {
    if (!message.is_object()) continue;
    shorten(message, "tool_call_id");
    if (has_calls(message)) {
      for (Json& call : message["tool_calls"]) shorten(call, "id");
    }
  }
}

std::string text_in(const Json& object, const char* field) {
  const auto text = object.is_object() ? object.find(field) : object.end();
  return object.is_object() && text != object.end() && text->is_string() ? text->get<std::string>() : "";
}

// Results without an id belong to the first call of their function, or of any, that has no result yet.
void give_ids_to_results(Json& messages) {
  std::vector<std::pair<std::string, std::string>> open;  // ids and names
  for (Json& message : messages) {
    if (has_calls(message)) {
      open.clear();
      for (const Json& call : message["tool_calls"]) {
        const Json function = call.is_object() ? call.value("function", Json()) : Json();
        open.emplace_back(text_in(call, "id"), text_in(function, "name"));
      }
    }
    if (role_of(message) != "tool") continue;
    const std::string id = text_in(message, "tool_call_id"), name = text_in(message, "name");
    const auto belongs = [&](const auto& call) {
      return id.empty() ? name.empty() || call.second == name : call.first == id;
    };
    const auto found = std::find_if(open.begin(), open.end(), belongs);
    if (found == open.end()) continue;
    if (id.empty() && !found->first.empty()) message["tool_call_id"] = found->first;
    open.erase(found);
  }
}

void make_users(Json& result) {
  result["role"] = "user";
  result.erase("tool_call_id");
  result.erase("name");
}

// Calls as JSON in the text of their message, and their results as the user's.
void write_calls_as_text(Json& messages) {
  for (Json& message : messages) {
    if (role_of(message) == "tool") make_users(message);
    if (!has_calls(message) || !is_text(message)) continue;
    std::string text = *text_of(message, "content");
    for (const Json& call : message["tool_calls"]) {
      Json function = call.is_object() ? call.value("function", Json()) : Json();
      const Json arguments = Json::parse(text_in(function, "arguments"), nullptr, false);
      if (!arguments.is_discarded()) function["arguments"] = arguments;
      text += (text.empty() ? "" : "\n") + function.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    message["content"] = text;
    message.erase("tool_calls");
  }
}

void move_lone_results(Json& messages) {
  bool follows_call = false;
  for (Json& message : messages) {
    const std::string role = role_of(message);
    if (role == "assistant" || role == "user") follows_call = has_calls(message);
    else if (role == "tool" && !follows_call) make_users(message);
  }
}

// A message of the assistant with a call, and its result.
Json call(const char* id, const Json& arguments) {
  const Json function = {{"name", "probe"}, {"arguments", arguments}};
  Json json = message("assistant", "");
  json["tool_calls"] = Json::array({{{"id", id}, {"type", "function"}, {"function", function}}});
  return json;
}

Json result(const char* id) {
  return {{"role", "tool"}, {"name", "probe"}, {"tool_call_id", id}, {"content", "the result"}};
}

}  // namespace

ConversationForm::ConversationForm(const Render& render) {
  const auto takes = [&](const Json& messages) {
    try {
      const std::string text = render(messages.dump());
      return std::all_of(messages.begin(), messages.end(), [&](const Json& one) {
        return text.find(one["content"].get_ref<const std::string&>()) != std::string::npos;
      });
    } catch (const std::exception&) {
      return false;
    }
  };
  const Json first_system = message("system", "first word"), second_system = message("system", "second word"),
             user = message("user", "the question"), answer = message("assistant", "the answer"),
             second_user = message("user", "another question"), second_answer = message("assistant", "another answer");
  if (!takes(Json::array({user}))) return;
  takes_first_system_ = takes({first_system, user});
  takes_two_systems_ = takes_first_system_ && takes({first_system, second_system, user});
  takes_late_systems_ = takes({user, second_system}) && takes({user, second_system, answer, second_user}) &&
                        takes({user, answer, second_system, second_user}) &&
                        takes({user, answer, second_user, second_system}) &&
                        (!takes_first_system_ || takes({first_system, user, second_system}));
  takes_no_user_ = takes(Json::array({first_system})) && takes({first_system, answer});
  takes_assistant_first_ = takes({answer, user}) && (!takes_first_system_ || takes({first_system, answer, user}));
  takes_users_in_a_row_ = takes({user, second_user}) && takes({user, answer, user, second_user});
  takes_assistants_in_a_row_ =
      takes({user, answer, second_answer}) && takes({user, answer, second_answer, second_user});
  // Arguments of calls are objects for some templates and strings for others.
  const auto takes_call = [&](const char* id, bool is_followed) {
    for (const Json& arguments : {Json({{"a", "b"}}), Json(R"({"a": "b"})")}) {
      Json messages = {user, call(id, arguments), result(id)};
      if (is_followed) messages.push_back(second_user);
      if (takes(messages)) return true;
    }
    return false;
  };
  takes_calls_ = takes_call("abcdef123", false);
  if (!takes_calls_) return;
  takes_lone_results_ = takes({user, result("abcdef123")});
  takes_any_call_id_ = takes_call("call_1", false);
  takes_user_after_result_ = takes_call("abcdef123", true);
}

std::string ConversationForm::fit(const std::string& given) const {
  const Json list = Json::parse(given, nullptr, false);
  const auto is_message = [](const Json& one) { return !role_of(one).empty(); };
  if (!list.is_array() || list.empty() || !std::all_of(list.begin(), list.end(), is_message)) return given;
  Json messages = list;
  for (Json& one : messages) {
    if (role_of(one) == "developer") one["role"] = "system";
  }
  give_ids_to_results(messages);
  if (!takes_calls_) write_calls_as_text(messages);
  else if (!takes_lone_results_) move_lone_results(messages);
  messages = with_late_systems(messages, !takes_late_systems_);
  if (!takes_two_systems_) messages = merged_in_a_row(messages, "system");
  std::size_t num_first = num_first_systems(messages);
  const auto is_user = [](const Json& one) { return role_of(one) == "user"; };
  const bool has_user = std::any_of(messages.begin(), messages.end(), is_user);
  if (!takes_first_system_) {
    for (std::size_t i = 0; i < num_first; ++i) messages[i]["role"] = "user";
    num_first = 0;
  } else if (!has_user && !takes_no_user_ && num_first > 0) {
    messages[--num_first]["role"] = "user";
  }
  const bool lacks_user = std::none_of(messages.begin(), messages.end(), is_user) && !takes_no_user_;
  const bool begins_with_answer = num_first < messages.size() && role_of(messages[num_first]) == "assistant";
  if (lacks_user || (begins_with_answer && !takes_assistant_first_))
    messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(num_first), message("user", ""));
  if (!takes_user_after_result_) {
    for (std::size_t i = 1; i < messages.size(); ++i) {
      if (role_of(messages[i - 1]) == "tool" && role_of(messages[i]) == "user")
        messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(i), message("assistant", ""));
    }
  }
  if (!takes_users_in_a_row_) messages = merged_in_a_row(messages, "user");
  if (!takes_assistants_in_a_row_) messages = merged_in_a_row(messages, "assistant");
  if (!takes_any_call_id_) shorten_ids(messages);
  return messages == list ? given : messages.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace specdec
