// POST /completion and /infill of llama-server.
#include <memory>
#include <string>
#include <utility>

#include "engine/request_options.h"
#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/infill.h"
#include "server/prompts.h"
#include "server/replies.h"
#include "server/request_fields.h"
#include "server/settings.h"

namespace specdec::server {
namespace {

struct LlamaCompletionOptions : ReplyOptions {
  bool return_tokens = false;
  std::vector<std::string> response_fields;  // "generation_settings/seed"; none: all
  std::vector<Request> requests;
  std::vector<std::string> prompts;  // the text of each prompt
  bool is_list = false;
};

std::vector<std::string> read_response_fields(const Fields& body) {
  const Json* given = body.find("response_fields");
  std::vector<std::string> names;
  if (given == nullptr) return names;
  if (!given->is_array()) throw wrong_value("response_fields", *given, "a list of strings");
  for (const Json& name : *given) {
    if (!name.is_string()) throw wrong_value("response_fields", *given, "a list of strings");
    names.push_back(name.get<std::string>());
  }
  return names;
}

// The named fields of a reply, each under its path.
Json selected(const Json& reply, const std::vector<std::string>& names) {
  if (names.empty()) return reply;
  Json result = Json::object();
  for (const std::string& name : names) {
    const Json* at = &reply;
    for (std::size_t begin = 0; at != nullptr && begin <= name.size();) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      const auto found = at->is_object() ? at->find(name.substr(begin, end - begin)) : at->end();
      at = found == at->end() ? nullptr : &*found;
      begin = end + 1;
    }
    if (at != nullptr) result[name] = *at;
  }
  return result;
}

// What ended the text: {stop_type, stopping_word}.
std::pair<std::string, std::string> end_of(const Generator& generator, const Request& request, const Answer& answer) {
  if (answer.finish_reason != FinishReason::stop) return {"limit", ""};
  const std::optional<std::string> stop = stop_string(generator, request, answer);
  return stop ? std::pair<std::string, std::string>("word", *stop) : std::pair<std::string, std::string>("eos", "");
}

Stats stats_of(const PromptProgress& progress) {
  Stats stats;
  stats.prompt_tokens = progress.read;
  stats.prompt_cached_tokens = progress.cached;
  stats.prompt_seconds = progress.seconds;
  return stats;
}

class LlamaReply {
 public:
  LlamaReply(Service& service, Generation& generation, const LlamaCompletionOptions& options)
      : service_(service), generation_(generation), options_(options) {}

  HttpReply collected() {
    Json replies = Json::array();
    for (Answer& answer : collect(generation_))
      replies.push_back(selected(last(replies.size(), answer), options_.response_fields));
    return json_reply(options_.is_list ? replies : replies[0]);
  }

  void stream(EventStream& events) {
    std::vector<Answer> answers(generation_.num_choices());
    generation_.keep_alive(events);
    if (options_.return_progress) {
      generation_.report_progress([&](std::size_t index, const PromptProgress& progress) {
        Json json = part(index, Piece(), answers[index]);
        json["tokens"] = Json::array();
        json.erase("completion_probabilities");
        json["prompt_progress"] = to_json(progress);
        if (options_.timings_per_token) json["timings"] = timings_json(stats_of(progress));
        events.send(json);
      });
    }
    while (std::optional<Generation::Item> item = generation_.next()) {
      Answer& answer = answers[item->choice];
      answer.add(item->piece);
      events.send(part(item->choice, item->piece, answer));
      if (answer.finish_reason) send_last(events, item->choice, answer);
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i].finish_reason) send_last(events, i, answers[i]);  // max_tokens is 0
    }
  }

 private:
  Json part(std::size_t index, const Piece& piece, const Answer& answer) const {
    Json json = {{"index", index},
                 {"content", piece.text},
                 {"tokens", Json::array({piece.token})},
                 {"stop", false},
                 {"id_slot", generation_.slot(index)},
                 {"tokens_predicted", answer.pieces.size()},
                 {"tokens_evaluated", generation_.stats(index).prompt_tokens}};
    if (options_.timings_per_token) json["timings"] = timings_json(generation_.stats(index));
    if (has_probabilities(index))
      json["completion_probabilities"] = Json::array({logprob_json(service_.generator(), piece)});
    return json;
  }

  void send_last(EventStream& events, std::size_t index, Answer& answer) {
    answer.stats = generation_.stats(index);
    Json json = last(index, answer);
    json["content"] = "";
    json["tokens"] = Json::array();
    events.send(selected(json, options_.response_fields));
  }

  Json last(std::size_t index, const Answer& answer) const {
    const Request& request = options_.requests[index];
    const auto [stop_type, stopping_word] = end_of(service_.generator(), request, answer);
    Json tokens = Json::array();
    if (options_.return_tokens) {
      for (const Piece& piece : answer.pieces) tokens.push_back(piece.token);
    }
    Json settings = settings_json(request);
    settings["seed"] = generation_.seed(index);
    settings["stream"] = options_.stream;
    Json json = {{"index", index},
                 {"content", answer.text},
                 {"tokens", tokens},
                 {"id_slot", generation_.slot(index)},
                 {"stop", true},
                 {"model", service_.options().model_name},
                 {"tokens_predicted", answer.pieces.size()},
                 {"tokens_evaluated", answer.stats.prompt_tokens},
                 {"generation_settings", settings},
                 {"prompt", options_.prompts[index]},
                 {"has_new_line", answer.text.find('\n') != std::string::npos},
                 {"truncated", answer.finish_reason == FinishReason::context},
                 {"stop_type", stop_type},
                 {"stopping_word", stopping_word},
                 {"tokens_cached", answer.stats.prompt_tokens + static_cast<std::int64_t>(answer.pieces.size())},
                 {"timings", timings_json(answer.stats)}};
    if (has_probabilities(index) && !options_.stream) {
      json["completion_probabilities"] = Json::array();
      for (const Piece& piece : answer.pieces)
        json["completion_probabilities"].push_back(logprob_json(service_.generator(), piece));
    }
    return json;
  }

  bool has_probabilities(std::size_t index) const { return options_.requests[index].top_logprobs > 0; }

  Service& service_;
  Generation& generation_;
  const LlamaCompletionOptions& options_;
};

// The endpoint's function that reads the prompts.
using ReadPrompts = Prompts (*)(const Service&, const Fields&, int answers_each);

LlamaCompletionOptions read_llama_options(Service& service, const Fields& body, ReadPrompts read_prompts,
                                          RequestRecord* record) {
  LlamaCompletionOptions options;
  options.stream = body.flag("stream", false);
  options.return_tokens = body.flag("return_tokens", false);
  options.timings_per_token = body.flag("timings_per_token", false);
  options.return_progress = body.flag("return_progress", false);
  options.response_fields = read_response_fields(body);
  if (body.flag("post_sampling_probs", false))
    throw invalid_request("post_sampling_probs", "post_sampling_probs is not supported");
  Request request = read_options(service, body, record);
  const int num_choices = read_num_choices(service, body);
  const Prompts prompts = read_prompts(service, body, num_choices);
  options.is_list = prompts.is_list || num_choices > 1;
  for (const Prompt& prompt : prompts.prompts) {
    prompt.put_into(request);
    const std::string text = prompt.tokens.empty() ? prompt.text : service.generator().detokenize(prompt.tokens, true);
    for (const Request& choice : choices_of(request, num_choices)) {
      options.requests.push_back(choice);
      options.prompts.push_back(text);
    }
  }
  return options;
}

Prompts read_infill_prompt(const Service& service, const Fields& body, int /*answers_each*/) {
  return {{infill_prompt(service, "input_suffix", read_infill(body))}, false};
}

HttpReply answer_completion(Service& service, const HttpRequest& http, ReadPrompts read_prompts) {
  const Json& body = body_of(http);
  const auto options = std::make_shared<const LlamaCompletionOptions>(
      read_llama_options(service, Fields(body), read_prompts, http.is_gone.record.get()));
  const auto generation = std::make_shared<Generation>(service, options->requests, http.is_gone);
  HttpReply reply;
  if (options->stream) {
    reply = event_reply([&service, generation, options](EventStream& events) {
      LlamaReply(service, *generation, *options).stream(events);
    });
  } else {
    reply = LlamaReply(service, *generation, *options).collected();
  }
  if (!options->requests.empty()) name_ignored_keywords(options->requests[0], reply);
  return reply;
}

}  // namespace

HttpReply llama_completion(Service& service, const HttpRequest& http) {
  return answer_completion(service, http, read_prompts);
}
// OpenAI's clients call this path if their base URL lacks "/v1": a body with fields that only their API has, and none
// that only llama-server's has, gets OpenAI's reply.
HttpReply any_completion(Service& service, const HttpRequest& http) {
  const Fields fields(body_of(http));
  const auto has_any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return fields.find(name) != nullptr; });
  };
  const bool is_llamas = has_any({"n_predict", "n_probs", "cache_prompt", "id_slot", "return_tokens", "response_fields",
                                  "timings_per_token", "return_progress", "samplers", "json_schema", "n_keep"});
  const bool is_openais = has_any({"model", "max_tokens", "best_of", "echo", "logprobs", "suffix", "stream_options"});
  return is_openais && !is_llamas ? completions(service, http) : llama_completion(service, http);
}

HttpReply llama_infill(Service& service, const HttpRequest& http) {
  return answer_completion(service, http, read_infill_prompt);
}

}  // namespace specdec::server
