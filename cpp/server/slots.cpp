// GET /slots and POST /slots/N?action=save, restore or erase of llama-server.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "server/deadline.h"
#include "server/endpoints.h"
#include "server/replies.h"
#include "server/settings.h"

namespace specdec::server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_name = 255;  // bytes
constexpr std::chrono::milliseconds between_tries(25);

// The name of a file in the folder: not a path, not a hidden file, also not on other systems.
std::string read_file_name(const Fields& body) {
  std::string name = body.required_text("filename");
  const auto is_wrong = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || std::string("/\\:*?\"<>|").find(c) != std::string::npos;
  };
  const bool is_file = !name.empty() && name.size() <= longest_name && name.front() != '.' && name.back() != '.' &&
                       name.back() != ' ' && std::none_of(name.begin(), name.end(), is_wrong);
  if (!is_file) throw wrong_value("filename", name, "a file name without a folder");
  return name;
}

int read_slot(const Service& service, const std::string& path) {
  const std::string digits = path.substr(path.rfind('/') + 1);
  const int slot = digits.size() < 5 ? std::stoi(digits) : -1;
  const int count = service.generator().max_sequences();
  if (slot >= 0 && slot < count) return slot;
  throw ApiError(404, "not_found_error",
                 "there is no slot " + digits + "; this server has 0 to " + std::to_string(count - 1));
}

// Waits while a request runs in the slot.
template <class Action>
int once_idle(const Service& service, const HttpRequest& http, const Action& action) {
  const Deadline deadline(http.is_gone, service.options().request_seconds);
  for (;;) {
    try {
      return action();
    } catch (const SlotBusy& busy) {
      deadline.check(busy.what());
    }
    std::this_thread::sleep_for(between_tries);
  }
}

// File errors use the client's name of the file.
ApiError file_error(std::string message, const std::string& path, const std::string& name) {
  const std::size_t at = message.find(path);
  if (at != std::string::npos) message.replace(at, path.size(), name);
  return invalid_request("filename", message);
}

HttpReply move_slot(Service& service, const HttpRequest& http, int slot, bool is_save) {
  const std::string& folder = service.options().slot_folder;
  if (folder.empty()) {
    throw ApiError(501, "not_supported_error",
                   "this server does not save or restore slots; start it with --slot-save-path FOLDER");
  }
  const Json& body = body_of(http);
  const std::string name = read_file_name(Fields(body)), path = (fs::path(folder) / name).string();
  const auto start = std::chrono::steady_clock::now();
  int count = 0;
  try {
    count = once_idle(service, http, [&] {
      Generator& generator = service.generator();
      return is_save ? generator.prefixes().save_slot(slot, path) : generator.prefixes().load(path, slot);
    });
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    throw file_error(error.what(), path, name);
  }
  const double ms = 1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code ignored;
  const std::uintmax_t bytes = fs::file_size(path, ignored);
  const std::string verb = is_save ? "save" : "restore";
  return json_reply({{"id_slot", slot},
                     {"filename", name},
                     {is_save ? "n_saved" : "n_restored", count},
                     {is_save ? "n_written" : "n_read", ignored ? 0 : bytes},
                     {"timings", {{verb + "_ms", ms}}}});
}

Json slot_json(const Service& service, int slot, const Service::Running* running) {
  Json json = {{"id", slot},
               {"n_ctx", service.generator().n_ctx()},
               {"speculative", has_draft(service.generator().models().plan().draft_source)},
               {"is_processing", running != nullptr}};
  if (running == nullptr) return json;
  const Stats stats = running->handle->stats();
  const PromptProgress progress = running->handle->prompt_progress();
  const std::int64_t most = running->request->max_tokens;
  Json settings = settings_json(*running->request);
  settings["seed"] = running->handle->seed();
  json["id_task"] = running->handle->id();
  json["n_prompt_tokens"] = progress.all;
  json["n_prompt_tokens_cache"] = progress.cached;
  json["n_prompt_tokens_processed"] = progress.read;
  json["params"] = std::move(settings);
  json["next_token"] = {{"has_next_token", true},
                        {"n_remain", most == std::numeric_limits<int>::max() ? -1 : most - stats.tokens},
                        {"n_decoded", stats.tokens}};
  return json;
}

}  // namespace

HttpReply slots(Service& service, const HttpRequest& http) {
  const std::map<int, Service::Running> running = service.running();
  const int count = service.generator().max_sequences();
  if (!http.query_value("fail_on_no_slot").empty() && running.size() >= idx(count))
    throw ApiError(503, "unavailable_error", "all slots are in use");
  Json list = Json::array();
  for (int slot = 0; slot < count; ++slot) {
    const auto found = running.find(slot);
    list.push_back(slot_json(service, slot, found == running.end() ? nullptr : &found->second));
  }
  return json_reply(list);
}

HttpReply slot_action(Service& service, const HttpRequest& http) {
  const int slot = read_slot(service, http.path);
  const std::string action = http.query_value("action");
  if (action == "save" || action == "restore") return move_slot(service, http, slot, action == "save");
  if (action != "erase") throw wrong_value("action", action, R"("save", "restore" or "erase")");
  const int count = once_idle(service, http, [&] { return service.generator().prefixes().erase_slot(slot); });
  return json_reply({{"id_slot", slot}, {"n_erased", count}});
}

}  // namespace specdec::server
