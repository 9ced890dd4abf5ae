// POST /v1/score of SGLang: how likely each label is to continue each text. Labels are token ids, or with our own field
// "labels" texts of any length.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/index.h"
#include "engine/label_scores.h"
#include "engine/prompt.h"
#include "server/endpoints.h"
#include "server/generation.h"
#include "server/replies.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

constexpr std::size_t max_scores = 10000;   // labels times texts in one request
constexpr std::size_t labels_at_once = 64;  // requests that wait in the queue

using Tokens = std::vector<Token>;

std::vector<Tokens> read_labels(const Generator& generator, const Fields& body) {
  std::vector<Tokens> labels;
  const Json* texts = body.find("labels");
  const Json* ids = body.find("label_token_ids");
  if ((texts == nullptr) == (ids == nullptr))
    throw invalid_request("label_token_ids", "give either label_token_ids or labels");
  const std::string field = texts != nullptr ? "labels" : "label_token_ids";
  const Json& given = texts != nullptr ? *texts : *ids;
  if (!given.is_array() || given.empty())
    throw wrong_value(field, given, texts != nullptr ? "a list of texts" : "a list of token ids");
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string path = field + "[" + std::to_string(i) + "]";
    if (texts == nullptr) {
      labels.push_back({read_token(generator, path, given[i])});
      continue;
    }
    if (!given[i].is_string() || given[i].get_ref<const std::string&>().empty())
      throw wrong_value(path, given[i], "a text of at least one character");
    labels.push_back(generator.continuation_tokens(given[i].get<std::string>()));
  }
  return labels;
}

// A text, or token ids.
struct ScoredPart {
  std::string text;
  Tokens tokens;
  bool is_text = true;
};

ScoredPart read_scored_part(const Generator& generator, const std::string& path, const Json& json) {
  if (json.is_string()) return {json.get<std::string>(), {}, true};
  if (!json.is_array()) throw wrong_value(path, json, "a string or a list of token ids");
  return {"", read_tokens(generator, path, json), false};
}

// One text or several.
std::vector<ScoredPart> read_items(const Generator& generator, const Fields& body) {
  const Json* given = body.find("items");
  if (given == nullptr) return {ScoredPart()};
  const bool is_one = given->is_string() || (given->is_array() && !given->empty() && (*given)[0].is_number());
  if (is_one) return {read_scored_part(generator, "items", *given)};
  if (!given->is_array() || given->empty()) throw wrong_value("items", *given, "a text or a list of texts");
  std::vector<ScoredPart> items;
  for (std::size_t i = 0; i < given->size(); ++i)
    items.push_back(read_scored_part(generator, "items[" + std::to_string(i) + "]", (*given)[i]));
  return items;
}

Tokens joined(const Generator& generator, const ScoredPart& first, const ScoredPart& second) {
  const auto tokens_of_text = [&](const std::string& text) {
    return text.empty() ? Tokens() : tokenize_prompt(generator.vocabulary(), text, generator.n_ctx(), {});
  };
  Tokens tokens;
  if (first.is_text && second.is_text) {
    tokens = tokens_of_text(first.text + second.text);
  } else {
    tokens = first.is_text ? tokens_of_text(first.text) : first.tokens;
    const Tokens more = second.is_text ? generator.continuation_tokens(second.text) : second.tokens;
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  if (tokens.empty()) throw invalid_request("query", "query and items are empty; give at least one character or token");
  return tokens;
}

void run(Generation& generation) {
  while (generation.next()) {
  }
}

// The labels' log-probabilities after a prompt, which is read once.
std::vector<double> label_logprobs(Service& service, const Tokens& prompt, const std::vector<Tokens>& labels,
                                   const HttpRequest& http) {
  Generation reading(service, {reading_request(prompt)}, http.is_gone);
  run(reading);
  std::vector<double> logprobs;
  for (std::size_t begin = 0; begin < labels.size(); begin += labels_at_once) {
    std::vector<Request> requests;
    for (std::size_t i = begin; i < std::min(labels.size(), begin + labels_at_once); ++i)
      requests.push_back(label_request(prompt, labels[i]));
    Generation scoring(service, requests, http.is_gone);
    run(scoring);
    for (std::size_t i = 0; i < requests.size(); ++i) logprobs.push_back(total(scoring.prompt_score(i)->logprobs));
  }
  return logprobs;
}

}  // namespace

HttpReply scores(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const Generator& generator = service.generator();
  const Json* query = fields.find("query");
  const ScoredPart first = query == nullptr ? ScoredPart() : read_scored_part(generator, "query", *query);
  const std::vector<ScoredPart> items = read_items(generator, fields);
  const std::vector<Tokens> labels = read_labels(generator, fields);
  if (items.size() * labels.size() > max_scores)
    throw invalid_request(
        "items", "items times labels are more than " + std::to_string(max_scores) + "; send them in several requests");
  const bool are_shares = fields.flag("apply_softmax", false), item_first = fields.flag("item_first", false);
  Json scores = Json::array(), logprobs = Json::array();
  std::size_t num_tokens = 0;
  for (const ScoredPart& item : items) {
    const Tokens prompt = item_first ? joined(generator, item, first) : joined(generator, first, item);
    num_tokens += prompt.size();
    const std::vector<double> of_labels = label_logprobs(service, prompt, labels, http);
    std::vector<double> probabilities = shares(of_labels);
    for (std::size_t i = 0; i < of_labels.size() && !are_shares; ++i) probabilities[i] = std::exp(of_labels[i]);
    scores.push_back(probabilities);
    logprobs.push_back(of_labels);
  }
  return json_reply(
      {{"object", "scoring"},
       {"scores", std::move(scores)},
       {"logprobs", std::move(logprobs)},
       {"model", service.options().model_name},
       {"usage", {{"prompt_tokens", num_tokens}, {"completion_tokens", 0}, {"total_tokens", num_tokens}}}});
}

}  // namespace specdec::server
