#include "cli/commands/generate_many.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "cli/openai_batch.h"
#include "cli/options.h"
#include "cli/piece_json.h"
#include "cli/prompt_line.h"
#include "cli/results_file.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/version.h"
#include "engine/arrivals.h"
#include "engine/request_options.h"
#include "gguf/fingerprint.h"
#include "platform/interrupt.h"
#include "platform/output_file.h"
#include "sampling/derived_seed.h"
#include "server/api_error.h"
#include "server/assistant_message.h"
#include "server/chat_request.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream opened;
  if (path != "-") opened.open(path, std::ios::binary);
  std::istream& file = path == "-" ? std::cin : opened;
  if (!file) throw Error(path + ": cannot be opened: " + std::generic_category().message(errno));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  if (file.bad()) throw Error(path + ": cannot be read: " + std::generic_category().message(errno));
  return lines;
}

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

std::string fingerprint(const std::vector<std::string>& lines) {
  Fingerprint fingerprint;
  for (const std::string& line : lines) {
    fingerprint.add(line.data(), line.size());
    fingerprint.add("\n", 1);
  }
  return fingerprint.text();
}

// The output and its .part file must be regular files other than the prompts. Symbolic links are followed.
void check_paths(ManyOptions& files) {
  namespace fs = std::filesystem;
  if (files.output == "-") {
    throw UsageError("--output must be a file, not standard output, so that an interrupted run can be resumed");
  }
  std::error_code ignored;
  const bool is_link = fs::is_symlink(files.output, ignored);
  if (is_link && fs::exists(files.output, ignored)) files.output = fs::canonical(files.output).string();
  for (const char* suffix : {"", ".part"}) {
    const std::string path = files.output + suffix;
    if (fs::equivalent(files.prompts, path, ignored)) {
      throw UsageError("--output " + files.output + " would overwrite the prompts; give another one");
    }
    if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
      throw Error(path + " is not a regular file; give another --output");
    }
  }
  check_output(files.output, files.force, "use --force to replace it");
}

// Identifies a model by its content, not its path.
std::string draft_of(const DraftSource& source) {
  const std::string* path = draft_path(source);
  return path == nullptr ? to_text(source) : model_fingerprint(*path);
}

struct ValueJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const std::string& value) const { return valid_utf8(value); }
  Json operator()(const std::vector<std::string>& values) const {
    Json json = Json::array();
    for (const std::string& value : values) json.push_back(valid_utf8(value));
    return json;
  }
  Json operator()(const std::vector<Token>& tokens) const { return tokens; }
  Json operator()(const sampling::LogitBias& biases) const {
    Json json = Json::array();
    for (const auto& [token, bias] : biases) json.push_back({token, format("%.17g", bias)});
    return json;
  }
  template <class Number>
  Json operator()(Number value) const {
    return value;
  }
};

template <class Owner>
Json conditions_of(const option::Table<Owner>& table, const Owner& owner) {
  Json json;
  for (const option::Option<Owner>& row : table) {
    if (row.changes_texts) json[row.name] = std::visit(ValueJson(), row.get(owner));
  }
  return json;
}

// All that the texts depend on.
Json conditions(const GeneratorOptions& options, const Request& defaults, int chat_tokens,
                const std::vector<std::string>& lines) {
  Json generator = conditions_of(generator_options(), options);
  generator["target"] = model_fingerprint(options.target);
  generator["draft"] = draft_of(options.draft);
  return {{"prompts", fingerprint(lines)},
          {"generator", generator},
          {"request", conditions_of(request_options(), defaults)},
          {"chat_tokens", chat_tokens}};
}

// The seed of an earlier run; nullopt if its first line has none.
std::optional<std::uint64_t> seed_of(const Json& conditions) {
  const Json seed = conditions.is_object() ? conditions.value(Json::json_pointer("/request/seed"), Json()) : Json();
  return seed.is_number_unsigned() ? std::optional<std::uint64_t>(seed.get<std::uint64_t>()) : std::nullopt;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown C++ exception";
  }
}

constexpr int num_queued = 1024;

// How conversations and calls of endpoints are read: as by a server without limits of its own.
server::ServiceOptions service_options(const Request& defaults, const std::string& model, int chat_tokens) {
  server::ServiceOptions options;
  options.defaults = defaults;
  options.defaults.seed.reset();
  options.defaults.max_tokens = chat_tokens;
  options.limits_tokens = false;
  options.request_seconds = 0;
  options.reads_picture_files = true;
  options.model_name = std::filesystem::path(model).stem().string();
  options.build = std::string(version) + ", " + build;
  return options;
}

server::ServiceOptions with_strict_fields(server::ServiceOptions options) {
  options.has_strict_fields = true;
  return options;
}

// One run over a file of prompts.
class Run {
 public:
  // The seed of `defaults` is used for the first request; the others' seeds are derived from it.
  Run(Generator& generator, const Request& defaults, const server::ServiceOptions& service,
      std::vector<std::string> lines, ResultsFile& results)
      : generator_(generator),
        defaults_(defaults),
        first_seed_(*defaults.seed),
        lines_(std::move(lines)),
        results_(results),
        conversations_(generator, num_queued, with_strict_fields(service)),
        calls_(generator, num_queued, service) {
    defaults_.seed.reset();
    for (const std::string& line : lines_) num_requests_ += is_blank(line) ? 0 : 1;
  }

  ~Run() { is_stopped_ = true; }  // calls that still run end soon; their futures wait for that
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void to_the_end() {
    ProgressLine progress;
    while (next_line_ < lines_.size() || num_running() > 0) {
      const std::uint64_t seen = arrivals_->count();
      submit();
      take();
      take_replies();
      if (interrupted()) throw Cancelled("interrupted");
      progress.update([&] {
        return std::to_string(results_.size()) + "/" + std::to_string(num_requests_) + " prompts, " +
               std::to_string(num_running()) + " running, " +
               format("%.1f tokens/s", static_cast<double>(num_tokens_) / (seconds() - begun_));
      });
      if (num_running() > 0) arrivals_->wait_beyond(seen, std::chrono::milliseconds(100));
    }
  }

  std::size_t num_requests() const { return num_requests_; }
  std::string summary() const {
    std::string text = counted(num_requests_, "prompt");
    if (num_tokens_ > 0) text += format(", %.1f tokens/s", static_cast<double>(num_tokens_) / (seconds() - begun_));
    if (results_.num_failed() > 0)
      text += "; " + std::to_string(results_.num_failed()) + " failed, see \"error\" in their lines";
    text += "\n";
    for (const auto& [name, line] : unknown_fields_)
      text += "note: line " + std::to_string(line) + ": unknown field \"" + printable(name) + "\", ignored\n";
    return text + (drafting_.empty() ? "" : drafting_text(drafting_));
  }

 private:
  struct Running {
    std::shared_ptr<RequestHandle> handle;
    std::size_t num_taken;  // pieces
    Json result;
    std::string text;
    Json tokens;  // only with top_logprobs
    std::optional<FinishReason> reason{};
    std::optional<server::AssistantMessage> message{};  // of a conversation
  };
  // A line in OpenAI's batch format.
  struct Call {
    std::int64_t index;
    std::size_t line;
    std::future<BatchReply> reply;
  };

  std::size_t num_running() const { return running_.size() + waiting_calls_.size(); }
  std::uint64_t seed_of_line(std::int64_t index) const {
    return sampling::derived_seed(first_seed_, static_cast<std::uint64_t>(index));
  }

  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // Keeps as many requests waiting as there are slots.
  void submit() {
    for (; next_line_ < lines_.size() && num_running() < 2 * idx(generator_.max_sequences()); ++next_line_) {
      if (is_blank(lines_[next_line_])) continue;
      const std::int64_t index = next_index_++;
      if (results_.has(index)) continue;
      Json result = {{"index", index}};
      try {
        const Json line = parse_line(lines_[next_line_]);
        if (is_batch_call(line)) submit_call(line, index);
        else if (line.contains("messages")) submit_conversation(line, result);
        else submit_prompt(line, result);
      } catch (const Cancelled&) {
        throw;
      } catch (const std::invalid_argument& error) {
        fail(std::move(result), place() + error.what());
      } catch (const ContextFull& error) {
        fail(std::move(result), place() + with_remedy(error));
      } catch (const server::ApiError& error) {
        fail(std::move(result), place() + error.what());
      } catch (const Error& error) {
        fail(std::move(result), place() + error.what());
      }
    }
  }

  std::string place() const { return "line " + std::to_string(next_line_ + 1) + ": "; }

  void submit_prompt(const Json& line, Json& result) {
    PromptLine request = prompt_line(line, defaults_);
    if (!request.id.is_null()) result["id"] = std::move(request.id);
    submit(request.request, result, std::nullopt);
  }

  // Read as the server reads the body of a chat.
  void submit_conversation(Json line, Json& result) {
    if (const Json id = line.value("id", Json()); !id.is_null()) result["id"] = id;
    line.erase("id");
    if (line.contains("prompt")) throw std::invalid_argument("give either \"prompt\" or \"messages\"");
    if (line.value("n", Json(1)) != 1) throw std::invalid_argument("n must be 1, except in OpenAI's batch format");
    if (!std::exchange(has_conversations_, true)) note_missing_template(generator_);
    const server::Fields fields(line);
    server::ChatRequest chat = server::read_chat_request(conversations_, fields, {interrupted});
    submit(chat.request, result, server::AssistantMessage(chat.parser));
  }

  void submit(Request& request, Json& result, std::optional<server::AssistantMessage> message) {
    if (!request.seed) request.seed = seed_of_line(result["index"].get<std::int64_t>());
    result["seed"] = *request.seed;
    const std::shared_ptr<RequestHandle> handle = generator_.submit(request, interrupted);
    handle->set_listener([arrivals = arrivals_] { arrivals->tell(); });
    running_.push_back({handle, 0, std::move(result), "", nullptr, std::nullopt, std::move(message)});
  }

  void submit_call(const Json& line, std::int64_t index) {
    BatchCall call = batch_call(line);
    if (call.is_generation && call.body.value("seed", Json()).is_null()) call.body["seed"] = seed_of_line(index);
    const auto run = [this, call = std::move(call), index] {
      const auto is_over = [this] { return is_stopped_ || interrupted(); };
      try {
        BatchReply reply = run_batch_call(calls_, call, index, is_over);
        arrivals_->tell();
        return reply;
      } catch (...) {
        arrivals_->tell();
        throw;
      }
    };
    waiting_calls_.push_back({index, next_line_ + 1, std::async(std::launch::async, run)});
  }

  void take_replies() {
    for (auto call = waiting_calls_.begin(); call != waiting_calls_.end();) {
      if (call->reply.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        ++call;
        continue;
      }
      Json result = {{"index", call->index}};
      try {
        const BatchReply reply = call->reply.get();
        result.update(reply.result);
        for (const std::string& name : reply.unknown_fields) unknown_fields_.emplace(name, call->line);
      } catch (const server::ClientGone&) {
        throw Cancelled("interrupted");
      }
      const Json& response = result["response"];
      if (!result["error"].is_null()) generator_.models().target_model().check_devices();
      const Json tokens = response.value(Json::json_pointer("/body/usage/completion_tokens"), Json(0));
      if (tokens.is_number_unsigned()) num_tokens_ += tokens.get<std::size_t>();
      results_.add(result);
      call = waiting_calls_.erase(call);
    }
  }

  // Takes the pieces that have arrived.
  void take() {
    for (auto running = running_.begin(); running != running_.end();) {
      const bool was_done = running->handle->is_done();  // asked first: once it is done, all pieces are there
      while (const std::optional<Piece> piece = running->handle->piece(running->num_taken)) {
        ++running->num_taken;
        ++num_tokens_;
        running->text += piece->text;
        if (running->message) (void)running->message->add(*piece);
        if (!piece->top_logprobs.empty()) running->tokens.push_back(piece_json(*piece, generator_));
        running->reason = piece->finish_reason;
      }
      if (was_done) finish(*running);
      running = was_done ? running_.erase(running) : std::next(running);
    }
  }

  void finish(Running& running) {
    Json& result = running.result;
    result["verification"] = name(running.handle->verification());
    result["text"] = running.text;
    if (!running.tokens.is_null()) result["tokens"] = std::move(running.tokens);
    result["finish_reason"] = running.reason ? Json(name(*running.reason)) : Json(nullptr);
    if (running.message) {
      result["message"] = running.message->json();
      if (running.reason == FinishReason::stop && running.message->has_tool_calls())
        result["finish_reason"] = "tool_calls";
    }
    drafting_ = running.handle->drafting();
    result["stats"] = statistics_json(running.handle->stats(), drafting_);
    if (const std::exception_ptr error = running.handle->error()) {
      // A lost device is not an error of this request: the run ends and can be resumed.
      generator_.models().target_model().check_devices();
      fail(std::move(result), message_of(error));
    } else {
      results_.add(result);
    }
  }

  void fail(Json result, const std::string& error) {
    result["error"] = valid_utf8(error);
    results_.add(result);
  }

  Generator& generator_;
  Request defaults_;
  std::uint64_t first_seed_;
  const std::vector<std::string> lines_;
  ResultsFile& results_;
  double begun_ = seconds();
  std::size_t next_line_ = 0, num_requests_ = 0, num_tokens_ = 0;
  std::int64_t next_index_ = 0;
  std::string drafting_;                               // of the request that ended last
  std::map<std::string, std::size_t> unknown_fields_;  // of bodies: the first line that has each
  std::list<Running> running_;
  const std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
  server::Service conversations_, calls_;
  bool has_conversations_ = false;
  std::atomic<bool> is_stopped_{false};
  std::list<Call> waiting_calls_;  // last: their threads use the other members
};

}  // namespace

int generate_many(GeneratorOptions options, Request defaults, ManyOptions files) {
  check_paths(files);
  std::vector<std::string> lines = read_lines(files.prompts);
  resolve_models(options);
  Generator generator(options);
  show_notes(generator);

  if (!defaults.seed) defaults.seed = seed_of(ResultsFile::earlier_run(files.output));
  fix_seed(defaults);
  ResultsFile results(files.output, conditions(options, defaults, files.chat_tokens, lines));
  const std::size_t kept = results.size();
  catch_interrupt();
  Run run(generator, defaults, service_options(defaults, options.target, files.chat_tokens), std::move(lines), results);
  if (kept > 0)
    note("resuming: " + std::to_string(kept) + " of " + counted(run.num_requests(), "prompt") + " already done\n");
  try {
    run.to_the_end();
  } catch (const Cancelled&) {
    note("interrupted: " + std::to_string(results.size()) + " of " + counted(run.num_requests(), "prompt") +
         " done; the same command resumes the run\n");
    return exit_interrupted;
  }
  results.finish();
  note(run.summary());
  return results.num_failed() == 0 ? 0 : 1;
}

}  // namespace specdec::cli
