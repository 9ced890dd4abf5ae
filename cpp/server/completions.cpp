// POST /v1/completions of the OpenAI API, with llama-server's "timings".
#include <memory>
#include <utility>

#include "base/index.h"
#include "base/utf8.h"
#include "server/endpoints.h"
#include "server/event_stream.h"
#include "server/generation.h"
#include "server/infill.h"
#include "server/prompts.h"
#include "server/replies.h"
#include "server/request_fields.h"

namespace specdec::server {
namespace {

struct CompletionOptions : ReplyOptions {
  bool echo = false;
  int num_top_logprobs = 0;
  std::size_t choices_per_prompt = 1;
  std::vector<std::string> echoed;  // the text of each prompt, if echo
};

CompletionOptions read_completion_options(const Fields& body) {
  CompletionOptions options;
  static_cast<ReplyOptions&>(options) = read_stream_options(body);
  options.echo = body.flag("echo", false);
  options.return_progress = body.flag("return_progress", false);
  const Json* logprobs = body.find("logprobs");
  options.has_logprobs = logprobs != nullptr && *logprobs != false;
  if (options.has_logprobs) options.num_top_logprobs = body.whole("logprobs", 0, 0, 20);
  if (options.echo && !body.text("suffix", "").empty())
    throw invalid_request("echo", "echo cannot be used with suffix: the model's own marks are added to that prompt");
  return options;
}

// Log-probabilities in the OpenAI API's older form: lists with an element per token.
class Logprobs {
 public:
  explicit Logprobs(const Generator& generator) : vocabulary_(generator.vocabulary()) {}

  // The first token has no log-probability.
  void add_prompt(const Score& score) {
    for (std::size_t i = 0; i < score.tokens.size(); ++i) {
      const std::string bytes = vocabulary_.piece(score.tokens[i]);
      const auto each = static_cast<std::ptrdiff_t>(i == 0 ? 0 : score.top_logprobs.size() / score.logprobs.size());
      const auto top = score.top_logprobs.begin() + (i == 0 ? 0 : each * static_cast<std::ptrdiff_t>(i - 1));
      add(bytes, i == 0 ? Json(nullptr) : Json(score.logprobs[i - 1]), {top, top + each}, num_characters(bytes));
    }
  }

  void add(const Piece& piece) {
    add(vocabulary_.piece(piece.token), piece.logprob, piece.top_logprobs, num_characters(piece.text));
  }

  // Returns what was added since the last call.
  Json take() {
    Json json = {{"tokens", std::move(tokens_)},
                 {"token_logprobs", std::move(logprobs_)},
                 {"top_logprobs", std::move(top_)},
                 {"text_offset", std::move(offsets_)}};
    tokens_ = logprobs_ = offsets_ = top_ = Json::array();
    return json;
  }

 private:
  // top: {"token": logprob}, which always includes the token itself; null without top_logprobs.
  void add(const std::string& bytes, const Json& logprob, const std::vector<sampling::TokenLogprob>& top,
           std::size_t num_text_characters) {
    const std::string text = valid_utf8(bytes);
    tokens_.push_back(text);
    logprobs_.push_back(logprob);
    offsets_.push_back(offset_);
    offset_ += num_text_characters;
    Json most_likely = nullptr;
    for (const sampling::TokenLogprob& one : top) most_likely[valid_utf8(vocabulary_.piece(one.token))] = one.logprob;
    if (!top.empty()) most_likely[text] = logprob;
    top_.push_back(most_likely);
  }

  static std::size_t num_characters(const std::string& text) {
    std::size_t count = 0;
    for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    return count;
  }

  Vocabulary vocabulary_;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), offsets_ = Json::array(), top_ = Json::array();
  std::size_t offset_ = 0;  // in characters, from the beginning of the choice's text
};

// With "suffix", the completion goes between the prompt and the suffix.
Prompts read_prompts_of(const Service& service, const Fields& body, int answers_each) {
  Prompts prompts = read_prompts(service, body, answers_each);
  const std::string suffix = body.text("suffix", "");
  if (suffix.empty()) return prompts;
  for (Prompt& prompt : prompts.prompts) {
    if (!prompt.tokens.empty())
      throw invalid_request("prompt", "with suffix, prompt must be a string or a list of strings");
    prompt = infill_prompt(service, "suffix", {prompt.text, suffix, {}});
  }
  return prompts;
}

class CompletionReply {
 public:
  CompletionReply(Service& service, Generation& generation, const CompletionOptions& options)
      : service_(service),
        generation_(generation),
        options_(options),
        heading_(reply_heading(service, "cmpl-", "text_completion")),
        logprobs_(generation.num_choices(), Logprobs(service.generator())) {}

  HttpReply collected() {
    Json reply = heading_, choices = Json::array();
    for (const Answer& answer : collect(generation_)) {
      const std::size_t index = choices.size();
      add_prompt(index);
      for (const Piece& piece : answer.pieces) logprobs_[index].add(piece);
      num_tokens_ += static_cast<std::int64_t>(answer.pieces.size());
      Json reason = finish_reason_json(answer.finish_reason);
      if (reason.is_null()) reason = "length";  // max_tokens is 0
      choices.push_back(choice(index, echoed(index) + answer.text, reason));
    }
    reply["choices"] = choices;
    reply["usage"] = to_json(usage());
    reply["timings"] = timings_json(generation_.all_stats());
    return json_reply(reply);
  }

  void stream(EventStream& events) {
    std::vector<bool> is_begun(generation_.num_choices()), is_finished(generation_.num_choices());
    const auto begin = [&](std::size_t index) {
      if (!options_.echo || is_begun[index]) return;
      is_begun[index] = true;
      add_prompt(index);
      send(events, choice(index, echoed(index), nullptr));
    };
    generation_.keep_alive(events);
    if (options_.return_progress) {
      generation_.report_progress([&](std::size_t index, const PromptProgress& progress) {
        Json chunk = heading_;
        chunk["choices"] =
            Json::array({{{"text", ""}, {"index", index}, {"logprobs", nullptr}, {"finish_reason", nullptr}}});
        chunk["prompt_progress"] = to_json(progress);
        events.send(chunk);
      });
    }
    while (const std::optional<Generation::Item> item = generation_.next()) {
      const Piece& piece = item->piece;
      ++num_tokens_;
      begin(item->choice);
      logprobs_[item->choice].add(piece);
      if (!piece.text.empty() || options_.has_logprobs) send(events, choice(item->choice, piece.text, nullptr));
      if (!piece.finish_reason) continue;
      is_finished[item->choice] = true;
      finish(events, item->choice, finish_reason_json(piece.finish_reason));
    }
    for (std::size_t i = 0; i < is_finished.size(); ++i) {  // max_tokens is 0
      if (is_finished[i]) continue;
      begin(i);
      finish(events, i, "length");
    }
    if (options_.include_usage) {
      Json chunk = heading_;
      chunk["choices"] = Json::array();
      chunk["usage"] = to_json(usage());
      chunk["timings"] = timings_json(generation_.all_stats());
      events.send(chunk);
    }
    events.send_done();
  }

 private:
  void add_prompt(std::size_t index) {
    if (const std::shared_ptr<const Score> score = generation_.prompt_score(index)) logprobs_[index].add_prompt(*score);
  }

  std::string echoed(std::size_t choice) const {
    return options_.echo ? options_.echoed[choice / options_.choices_per_prompt] : "";
  }

  Json choice(std::size_t index, const std::string& text, const Json& reason) {
    Json logprobs = nullptr;
    if (options_.has_logprobs) logprobs = logprobs_[index].take();
    return {{"text", text}, {"index", index}, {"logprobs", logprobs}, {"finish_reason", reason}};
  }

  void finish(EventStream& events, std::size_t index, const Json& reason) {
    Json chunk = heading_;
    chunk["choices"] =
        Json::array({{{"text", ""}, {"index", index}, {"logprobs", nullptr}, {"finish_reason", reason}}});
    if (!options_.include_usage) chunk["timings"] = timings_json(generation_.stats(index));
    events.send(chunk);
  }

  void send(EventStream& events, const Json& choice) {
    Json chunk = heading_;
    chunk["choices"] = Json::array({choice});
    events.send(chunk);
  }

  Usage usage() const {
    Usage usage;
    for (std::size_t i = 0; i < generation_.num_choices(); i += options_.choices_per_prompt) {
      usage.prompt_tokens += generation_.stats(i).prompt_tokens;
      usage.cached_tokens += generation_.stats(i).prompt_cached_tokens;
    }
    usage.completion_tokens = num_tokens_;
    add_prediction(generation_.all_stats(), usage);
    return usage;
  }

  Service& service_;
  Generation& generation_;
  const CompletionOptions& options_;
  const Json heading_;
  std::vector<Logprobs> logprobs_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace

HttpReply completions(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  CompletionOptions options = read_completion_options(fields);
  Request request = read_options(service, fields, http.is_gone.record.get());
  request.logprobs = options.has_logprobs;
  if (options.has_logprobs) request.top_logprobs = options.num_top_logprobs;
  request.score_prompt = options.echo && options.has_logprobs;
  const int num_choices = read_num_choices(service, fields);
  if (fields.whole("best_of", num_choices, 1, 128) != num_choices)
    throw invalid_request("best_of", "best_of must be equal to n");
  options.choices_per_prompt = idx(num_choices);
  std::vector<Request> requests;
  for (const Prompt& prompt : read_prompts_of(service, fields, num_choices).prompts) {
    prompt.put_into(request);
    for (Request& one : choices_of(request, num_choices)) requests.push_back(std::move(one));
    if (options.echo)
      options.echoed.push_back(prompt.tokens.empty() ? prompt.text : service.generator().detokenize(prompt.tokens));
  }
  const auto generation = std::make_shared<Generation>(service, requests, http.is_gone);
  HttpReply reply;
  if (options.stream) {
    reply = event_reply([&service, generation, options](EventStream& events) {
      CompletionReply(service, *generation, options).stream(events);
    });
  } else {
    reply = CompletionReply(service, *generation, options).collected();
  }
  name_ignored_keywords(request, reply);
  return reply;
}

}  // namespace specdec::server
