#include "cli/commands/serve.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "cli/hub_models.h"
#include "cli/model_folder.h"
#include "cli/options.h"
#include "cli/shared_options.h"
#include "cli/template_options.h"
#include "cli/terminal/background_lines.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/version.h"
#include "disk_cache/bounded_folder.h"
#include "engine/memory.h"
#include "platform/file.h"
#include "platform/interrupt.h"
#include "platform/memory.h"
#include "server/server.h"

namespace specdec::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int automatic_cache = -2;

struct ServeOptions {
  ServeOptions() {
    generator.max_sequences = 4;
    generator.max_queue_size = 64;
    defaults.max_tokens = std::numeric_limits<int>::max();
  }

  GeneratorOptions generator;
  Request defaults;
  server::HttpOptions http;
  std::optional<ChatTemplate> chat_template;  // null: the model's own
  std::string template_variables = "{}";      // JSON
  std::string alias;                          // empty: the file's name
  int request_seconds = 600, drain_seconds = 30;
  int num_threads = 0;  // 0: one per request that may run or wait, and some more
  int max_body_mib = 32;
  int cache_mib = automatic_cache;  // for prefixes in memory; -1: no limit
  std::string cache_folder;         // for prefixes on disk: FOLDER or FOLDER:MIB
  std::string model_folder;         // empty: one model
  int most_models = 4;              // models of the folder loaded at once; 0: any number
  bool loads_models = true;
  int idle_unload_seconds = 0;  // 0: never
  std::string overflow;         // empty: of the API
  std::string slot_folder;
  bool fetches_pictures = false;
  int ping_seconds = 30;
  bool continues_answers = true;
  std::string log_format = "text", log_file;  // empty: standard error
  bool has_no_log = false;
  bool has_no_page = false, has_strict_fields = false;
  bool accepted = false;  // for llama-server's flags that have no effect here
};

// Threads in addition to those for requests that run or wait: for other endpoints, and for clients that are told to
// come back later.
constexpr int spare_threads = 32;

std::vector<std::string> parts(const std::string& text, char between) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, between);) {
    part.erase(0, part.find_first_not_of(" \t\r"));
    part.erase(part.find_last_not_of(" \t\r") + 1);
    if (!part.empty()) result.push_back(part);
  }
  return result;
}

void add_keys(std::vector<std::string>& keys, const std::vector<std::string>& more) {
  if (more.empty()) throw UsageError("expected at least one key");
  keys.insert(keys.end(), more.begin(), more.end());
}

CommandLine command_line(ServeOptions& options) {
  CommandLine line;
  line.command = "specdec serve";
  line.arguments = "[options] [MODEL]";
  take_model(line);
  line.about =
      "Serves the APIs of OpenAI, Anthropic and Ollama over HTTP (docs/server.md): chats, completions, embeddings. "
      "Requests share the model, its passes and the cache of prompts. A seed gives the same text with any draft or "
      "none, alone or with other requests. SIGTERM or Ctrl-C ends it after the running requests, a second one at once.";
  line.positional_hint = "; a model is FILE.gguf, OWNER/REPO or a short name (specdec models names)";
  const auto set_keys = [&options](const std::string& text) { add_keys(options.http.api_keys, parts(text, ',')); };
  const auto read_keys = [&options](const std::string& path) {
    add_keys(options.http.api_keys, parts(File::open(path).read_all(), '\n'));
  };
  const auto set_origins = [&options](const std::string& text) { options.http.cors_origins = parts(text, ','); };
  const auto set_hosts = [&options](const std::string& text) { options.http.allowed_hosts = parts(text, ','); };
  line.groups = {
      {"Server",
       {text({"--host"}, "ADDRESS", options.http.host,
             "address to listen on; 0.0.0.0: all addresses of this machine (default: 127.0.0.1)"),
        integer({"--port"}, options.http.port, 0, 65535, "TCP port; 0: a free one, which is printed (default: 8080)"),
        parallel_option(options.generator,
                        "requests that run at once, 1 to 256, each with a context of -c tokens (default: 4)"),
        integer({"--queue"}, options.generator.max_queue_size, 0, 4096,
                "requests that may wait; more get status 503 (default: 64)"),
        {{"--api-key"},
         "KEY",
         "API key that clients must send; for several, separate them with commas or repeat the option (default: none)",
         set_keys},
        {{"--api-key-file"}, "FILE", "file of API keys, one per line", read_keys},
        text({"-a", "--alias"}, "NAME", options.alias, "name of the model for clients (default: the file's name)"),
        {{"--cors", "--cors-origins"},
         "ORIGINS",
         "origins of web pages that may use the server, comma-separated; *: all, localhost: those of this machine "
         "(default: none)",
         set_origins},
        {{"--allowed-hosts"},
         "NAMES",
         "names under which this server may be called, comma-separated, for example those of a reverse proxy: "
         "ai.example.com, .example.com (with all below it), * (any); localhost, addresses and names without a dot "
         "are always allowed (default: the name of --host)",
         set_hosts},
        integer({"-to", "--timeout"}, options.request_seconds, 0, 1 << 20,
                "time limit of a request in seconds; 0: none (default: 600)"),
        integer({"--client-timeout"}, options.http.patience, 1, 3600,
                "time limit in seconds for a client to send or accept the next bytes (default: 20)"),
        integer({"--drain-timeout"}, options.drain_seconds, 0, 1 << 20,
                "seconds that running requests have to finish after SIGTERM (default: 30)"),
        integer({"--max-body"}, options.max_body_mib, 1, 1024, "size of the largest request in MiB (default: 32)"),
        integer({"-cram", "--cache-ram"}, options.cache_mib, -1, 1 << 24,
                "memory in MiB for the caches of conversations whose slot another request took; -1: no limit, 0: none "
                "(default: a quarter of the free memory, at most 8192)"),
        text({"--cache-disk"}, "FOLDER[:MIB]", options.cache_folder,
             "keep the caches of conversations in this folder, too, so that a restarted server does not read them "
             "again; servers may share it (default size: 8192 MiB)"),
        text({"--slot-save-path"}, "FOLDER", options.slot_folder,
             "let clients save the caches of slots to files in this folder and restore them: POST /slots/N?action=save "
             "(default: not allowed)"),
        flag({"--allow-image-urls"}, options.fetches_pictures,
             "fetch pictures that clients name by http and https URLs, from public hosts only (default: not allowed; "
             "clients send the pictures themselves)"),
        integer({"--sse-ping-interval"}, options.ping_seconds, -1, 1 << 20,
                "seconds after which an idle stream gets a comment, so that the connection does not look dead; -1: "
                "never (default: 30)"),
        integer({"--threads-http"}, options.num_threads, 0, 8192,
                "requests with a body that are handled at once (default: enough for -np and --queue)"),
        choice({"--log-format"}, {"text", "json"}, options.log_format,
               "form of the log on standard error, a line per request, without its text: text, json (default: text)"),
        text({"--log-file"}, "FILE", options.log_file, "append the log and the notes to this file instead"),
        flag({"--log-disable"}, options.has_no_log, "do not log requests"),
        flag({"--strict-fields"}, options.has_strict_fields,
             "reject requests with unknown fields, which may be misspelled; otherwise these fields are ignored"),
        flag({"--no-webui", "--no-ui"}, options.has_no_page, "do not serve the page for browsers at /"),
        flag({"--metrics", "--embeddings", "--embedding", "--slots", "--props", "--webui", "--ui"}, options.accepted,
             "accepted for compatibility with llama-server; always on"),
        flag({"-cb", "--cont-batching", "--cache-prompt", "--no-context-shift", "--no-warmup"}, options.accepted,
             "accepted for compatibility with llama-server; always so")}},
      {"Several models",
       {text(
            {"--models-dir"}, "FOLDER", options.model_folder,
            "serve the models of this folder, FOLDER/NAME.gguf or a folder FOLDER/NAME with a model in it, each loaded "
            "when a request names it in its field \"model\", with a draft of its own; \"hub\": those of the hub's "
            "cache"),
        integer({"--models-max"}, options.most_models, 0, 1 << 10,
                "maximum number of models loaded at once; the least recently used one is unloaded first, also when "
                "memory is short; 0: no limit (default: 4)"),
        integer({"--idle-unload"}, options.idle_unload_seconds, 0, 1 << 30,
                "seconds without a request after which a model is unloaded; keep_alive of Ollama's requests changes it "
                "for their model; 0: never (default: 0)"),
        flag({"--models-autoload"}, options.loads_models, "requests load their model (the default)"),
        flag({"--no-models-autoload"}, options.loads_models, "only POST /models/load loads models", false)}},
      {"Text",
       {template_option(options.chat_template), template_file_option(options.chat_template),
        template_variables_option(options.template_variables),
        flag({"--prefill-assistant"}, options.continues_answers,
             "if the last message is the assistant's, continue it (the default)"),
        flag({"--no-prefill-assistant"}, options.continues_answers,
             "answer with a new message even then, unless the request has continue_final_message", false),
        flag({"--jinja"}, options.accepted,
             "accepted for compatibility with llama-server; templates are always run as Jinja"),
        integer({"--reasoning-budget"}, options.defaults.reasoning_budget, -1, std::numeric_limits<int>::max(),
                "maximum number of reasoning tokens before an answer, if the template marks reasoning; -1: no limit "
                "(default: -1)"),
        choice({"--context-overflow"}, {"error", "drop"}, options.overflow,
               "what happens to a conversation that does not fit the context: error, or drop its oldest turns "
               "(default: drop for Ollama's /api/chat and /api/generate, error for the others)"),
        predict_option(
            options.defaults, 0,
            "maximum number of tokens per answer, and the default for requests that set none; -1: until the model "
            "ends it or the context is full (default: -1)"),
        stop_option(options.defaults, "stop string for requests without one; repeatable")}},
      model_group(options.generator),
      sampling_group(options.defaults),
  };
  line.groups.back().title = "Sampling defaults, for requests that do not set them";
  line.basics = {"-m",      "-md",       "-hf",    "-hfd", "--host", "--port", "-np",
                 "--queue", "--api-key", "--cors", "-to",  "-c",     "-t",     "-n"};
  return line;
}

std::string url(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return "http://" + (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

void check_slot_folder(const std::string& folder) {
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw Error("--slot-save-path " + printable(folder) + ": there is no such folder");
}

constexpr std::uint64_t default_cache_mib = 8192;

std::uint64_t memory_for_prefixes(int mib) {
  if (mib >= 0) return static_cast<std::uint64_t>(mib) << 20;
  if (mib == automatic_cache) return std::min(available_memory() / 4, default_cache_mib << 20);
  return std::numeric_limits<std::uint64_t>::max();
}

SavedPrefixes::Kept kept_prefixes(const ServeOptions& options) {
  SavedPrefixes::Kept kept;
  kept.memory_bytes = memory_for_prefixes(options.cache_mib);
  const FolderLimit limit = parse_folder_limit(options.cache_folder, default_cache_mib << 20);
  kept.folder = limit.folder;
  kept.folder_bytes = limit.most_bytes;
  return kept;
}

using Report = std::function<void(const std::string&)>;

server::ServiceOptions service_options(const ServeOptions& options) {
  server::ServiceOptions service;
  service.defaults = options.defaults;
  service.defaults.num_draft_tokens = options.generator.num_draft_tokens;  // which clients see
  service.template_variables = options.template_variables;
  service.build = std::string(version) + ", " + build;
  service.request_seconds = options.request_seconds;
  service.ping_interval = std::chrono::seconds(options.ping_seconds);
  service.has_page = !options.has_no_page;
  service.has_strict_fields = options.has_strict_fields;
  service.slot_folder = options.slot_folder;
  service.fetches_pictures = options.fetches_pictures;
  if (!options.overflow.empty())
    service.overflow =
        options.overflow == "drop" ? server::ServiceOptions::Overflow::drop : server::ServiceOptions::Overflow::error;
  service.continues_answers = options.continues_answers;
  service.metrics = std::make_shared<server::Metrics>();
  return service;
}

// Loads a model and prepares it to answer requests.
std::shared_ptr<server::Service> serve_model(const GeneratorOptions& model, const ServeOptions& options,
                                             server::ServiceOptions service, const Report& report) {
  struct Served {
    std::unique_ptr<Generator> generator;
    std::unique_ptr<server::Service> service;  // destroyed first
  };
  const auto served = std::make_shared<Served>();
  served->generator = std::make_unique<Generator>(model);
  Generator& generator = *served->generator;
  if (!generator.models().placement().empty()) report("note: " + generator.models().placement());
  if (!generator.models().plan().draft_choice.empty()) report("note: " + generator.models().plan().draft_choice);
  for (const std::string& sentence : generator.models().notes()) report("note: " + sentence);
  if (options.chat_template) generator.chat().set_template(*options.chat_template);
  if (!generator.makes_text()) report("note: this is an embedding model, which generates no text");
  else if (!generator.chat().has_template())
    report("note: the model has no chat template; messages are joined as plain text (--chat-template)");
  else if (!generator.chat().writes_calls())
    report("note: the chat template does not say how tool calls are written; only calls in JSON are read");
  generator.prefixes().keep(kept_prefixes(options),
                            [report](const std::string& problem) { report("specdec serve: " + printable(problem)); });
  service.model_path = model.target;
  served->service = std::make_unique<server::Service>(generator, model.max_queue_size, std::move(service));
  return {served, served->service.get()};
}

std::unique_ptr<server::ModelPool> one_model(ServeOptions& options, const Report& report) {
  resolve_models(options.generator);
  server::ServiceOptions service = service_options(options);
  service.model_name =
      options.alias.empty() ? std::filesystem::path(options.generator.target).filename().string() : options.alias;
  return std::make_unique<server::ModelPool>(serve_model(options.generator, options, std::move(service), report));
}

GeneratorOptions options_of(const server::KnownModel& model, GeneratorOptions options) {
  options.target = model.path;
  choose_draft(options);
  return options;
}

std::unique_ptr<server::ModelPool> several_models(const ServeOptions& options, const Report& report) {
  if (!options.generator.target.empty() || draft_path(options.generator.draft) != nullptr || !options.alias.empty())
    throw UsageError(
        "--models-dir serves the models of a folder, each with a draft of its own; leave out -m, -md and -a");
  server::ModelPool::Options pool;
  pool.most = idx(options.most_models);
  pool.loads_by_itself = options.loads_models;
  if (options.idle_unload_seconds > 0) pool.idle_unload = std::chrono::seconds(options.idle_unload_seconds);
  pool.max_waiting = idx(options.generator.max_queue_size);
  pool.common = service_options(options);
  server::ModelPool::Loader loader;
  loader.load = [&options, report, common = pool.common](const server::KnownModel& model,
                                                         const LoadProgressCallback& progress) {
    GeneratorOptions own = options_of(model, options.generator);
    own.progress = progress;
    server::ServiceOptions service = common;
    service.model_name = model.name;
    return serve_model(own, options, std::move(service),
                       [&](const std::string& line) { report(model.name + ": " + line); });
  };
  loader.memory_need = [&options](const server::KnownModel& model) {
    return memory_need(options_of(model, options.generator)).total();
  };
  loader.available_memory = available_memory;
  return std::make_unique<server::ModelPool>(models_in(options.model_folder), pool, std::move(loader));
}

// Gives requests that run or wait some time to end.
void drain(server::Server& server, int seconds) {
  clear_interrupt();
  server.refuse_requests();
  const std::size_t count = server.num_unfinished();
  if (count > 0) note("ending: waiting for " + counted(count, "request") + "; a second signal ends them\n");
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  while (server.num_unfinished() > 0 && Clock::now() < end) {
    if (wait_for_interrupt(std::chrono::milliseconds(20))) std::_Exit(exit_interrupted);
  }
  release_terminations();  // replies may still be on their way to slow clients
}

}  // namespace

CommandLine describe_serve() {
  static ServeOptions arguments;
  return command_line(arguments);
}

int run_serve(int argc, const char* const* argv) {
  ServeOptions options;
  const CommandLine line = command_line(options);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  name_model(options.generator, *positionals);
  const int capacity = options.generator.max_sequences + options.generator.max_queue_size;
  options.http.num_threads = options.num_threads > 0 ? options.num_threads : capacity + spare_threads;
  options.http.max_body = idx(options.max_body_mib) << 20;

  check_slot_folder(options.slot_folder);
  BackgroundLines lines(options.log_file);
  const Report report = [&lines](const std::string& text) { lines.write(text); };
  if (!options.has_no_log) {
    const auto form = options.log_format == "json" ? server::json_line : server::text_line;
    options.http.log = [report, form](const server::RequestRecord& record) { report(form(record)); };
  }
  const std::unique_ptr<server::ModelPool> models =
      options.model_folder.empty() ? one_model(options, report) : several_models(options, report);
  catch_terminations();
  server::Server server(*models, options.http,
                        [report](const std::string& problem) { report("specdec serve: " + printable(problem)); });
  write("listening on " + url(options.http.host, server.port()) + "\n");
  while (!wait_for_interrupt(std::chrono::seconds(1))) {
    if (server.has_failed())
      throw Error("no more connections are accepted by the system; check the network, and start the server again");
  }
  drain(server, options.drain_seconds);
  return 0;
}

}  // namespace specdec::cli
