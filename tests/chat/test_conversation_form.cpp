// Conversations of every order of roles, and templates with every combination of what templates reject: the fitted
// conversation is taken, and no text is lost.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "chat/conversation_form.h"
#include "check.h"

using Json = nlohmann::ordered_json;
using specdec::ConversationForm;

namespace {

// What a template rejects, or loses in silence.
struct Rules {
  bool no_system, one_system, no_late_system, needs_user, users_alternate, answers_alternate, begins_with_user;
  bool is_silent;  // loses texts of the system instead of an exception
};

Rules rules_of(unsigned bits) {
  const auto bit = [&](unsigned i) { return (bits >> i & 1u) != 0; };
  return {bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7)};
}

std::string render(const Rules& rules, const std::string& text) {
  const Json messages = Json::parse(text);
  std::string result, last;
  bool has_user = false, is_late = false;
  for (const Json& message : messages) {
    const std::string role = message["role"];
    const auto fail = [&](const char* problem) { throw std::runtime_error(problem); };
    if (role == "system") {
      const bool is_wrong =
          rules.no_system || (rules.one_system && last == "system") || (rules.no_late_system && is_late);
      if (is_wrong && rules.is_silent) continue;
      if (is_wrong) fail("a system message");
    } else {
      if (role == "assistant" && !is_late && rules.begins_with_user) fail("the user comes first");
      is_late = true;
    }
    if (role == "user" && last == "user" && rules.users_alternate) fail("two of the user");
    if (role == "assistant" && last == "assistant" && rules.answers_alternate) fail("two of the assistant");
    has_user = has_user || role == "user";
    if (message["content"].is_string()) result += role + ": " + message["content"].get<std::string>() + "\n";
    last = role;
  }
  if (rules.needs_user && !has_user) throw std::runtime_error("no user");
  return result;
}

// All lists of up to four roles.
std::vector<std::vector<std::string>> all_orders() {
  std::vector<std::vector<std::string>> orders = {{}};
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (orders[i].size() == 4) continue;
    for (const char* role : {"system", "user", "assistant"}) {
      orders.push_back(orders[i]);
      orders.back().emplace_back(role);
    }
  }
  orders.erase(orders.begin());
  return orders;
}

std::string texts_of(const std::vector<std::string>& roles) {
  Json messages = Json::array();
  for (const std::string& role : roles)
    messages.push_back({{"role", role}, {"content", "text " + std::to_string(messages.size()) + "."}});
  return messages.dump();
}

}  // namespace

TEST(every_order_of_roles_and_every_template) {
  const std::vector<std::vector<std::string>> orders = all_orders();
  CHECK(orders.size() == 3 + 9 + 27 + 81);
  int num_fitted = 0;
  for (unsigned bits = 0; bits < 256; ++bits) {
    const Rules rules = rules_of(bits);
    const ConversationForm form([&](const std::string& text) { return render(rules, text); });
    for (const std::vector<std::string>& roles : orders) {
      const std::string given = texts_of(roles), fitted = form.fit(given);
      const std::string text = render(rules, fitted);
      std::size_t from = 0;
      for (std::size_t i = 0; i < roles.size(); ++i) {  // all texts, in their order
        from = text.find("text " + std::to_string(i) + ".", from);
        CHECK(from != std::string::npos);
      }
      num_fitted += fitted != given ? 1 : 0;
    }
  }
  CHECK(num_fitted > 1000);
  const ConversationForm any([&](const std::string& text) { return render(rules_of(0), text); });
  for (const std::vector<std::string>& roles : orders) CHECK(any.fit(texts_of(roles)) == texts_of(roles));
}

TEST(what_is_not_a_conversation_is_left_alone) {
  const ConversationForm form([&](const std::string& text) { return render(rules_of(255), text); });
  for (const char* text : {"", "{", "[]", "{}", "1", "[1]", R"([{"content": "a"}])", R"([{"role": 1}])", "null"})
    CHECK(form.fit(text) == text);
  const ConversationForm broken([](const std::string&) -> std::string { throw std::runtime_error("always"); });
  const std::string two = texts_of({"system", "system", "user"});
  CHECK(broken.fit(two) == two);
}

TEST(results_of_calls_stay_with_their_calls) {
  const ConversationForm form([&](const std::string& text) { return render(rules_of(4 + 16 + 32), text); });
  const std::string given =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"1"}]},)"
      R"({"role":"system","content":"b"},{"role":"tool","tool_call_id":"1","content":"c"},)"
      R"({"role":"user","content":"d"}])";
  const Json fitted = Json::parse(form.fit(given));
  CHECK(fitted.size() == 4);
  CHECK(fitted[2]["role"] == "tool");
  CHECK(fitted[3]["content"] == "b\n\nd");
}

TEST(ids_of_nine_letters) {
  const auto render_short = [](const std::string& text) {
    std::string result;
    for (const Json& message : Json::parse(text)) {
      const auto check = [](const std::string& id) {
        if (id.size() != 9) throw std::runtime_error("the id must have nine letters");
      };
      if (message.contains("tool_call_id")) check(message["tool_call_id"]);
      if (message.contains("tool_calls")) check(message["tool_calls"][0]["id"]);
      result += message["content"].get<std::string>() + "\n";
    }
    return result;
  };
  const ConversationForm form(render_short);
  const std::string given =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"call_long_1"}]},)"
      R"({"role":"tool","tool_call_id":"call_long_1","content":"c"}])";
  const Json fitted = Json::parse(form.fit(given));
  CHECK(fitted[1]["tool_calls"][0]["id"] == fitted[2]["tool_call_id"]);
  CHECK(render_short(form.fit(given)).find('c') != std::string::npos);
}

TEST_MAIN()
