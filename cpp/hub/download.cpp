#include "hub/download.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "hub/cache.h"
#include "platform/file.h"
#include "platform/http.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int max_questions = 3;                            // requests for a repository's description
constexpr int max_failures = 5;                             // in succession, without receiving a byte
constexpr int max_wait_s = 300;                             // the longest wait that a server may ask for
constexpr std::size_t max_listing = std::size_t{64} << 20;  // bytes of a repository's description

struct RemoteFile {
  std::string path;
  std::string etag;  // its name among the blobs; the SHA-256 if it has 64 digits
  std::uint64_t bytes = 0;
};

struct RemoteRepository {
  std::string commit;
  std::vector<RemoteFile> files;
};

// A human-readable size.
std::string gigabytes(std::uint64_t bytes) {
  std::string text = std::to_string(static_cast<double>(bytes) / 1e9);
  return text.substr(0, text.find('.') + 3) + " GB";
}

class Download {
 public:
  Download(const HubName& name, const HubCallbacks& callbacks, bool with_projector)
      : name_(name),
        with_projector_(with_projector),
        callbacks_(callbacks),
        cache_(name.repository),
        endpoint_(hub_endpoint()),
        token_(hub_token()) {}

  std::string run() {
    if (is_hub_offline())
      return from_cache("HF_HUB_OFFLINE is set; unset it, or download the model where there is a network");
    std::optional<RemoteRepository> remote;
    try {
      remote = ask();
    } catch (const ConnectionError& error) {
      const std::string path = from_cache("the hub cannot be reached (" + std::string(error.what()) +
                                          "); check the network, HTTPS_PROXY and SSL_CERT_FILE");
      tell("the hub cannot be reached (" + std::string(error.what()) + "); using the cached " + name_.text());
      return path;
    }
    std::vector<std::string> paths;
    for (const RemoteFile& file : remote->files) paths.push_back(file.path);
    std::vector<std::string> wanted = choose_model_files(name_, paths);
    if (const std::vector<std::string> projectors = projectors_among(paths); with_projector_ && !projectors.empty())
      wanted.push_back(projectors.front());
    std::vector<RemoteFile> files;
    for (const std::string& path : wanted) {
      files.push_back(*std::find_if(remote->files.begin(), remote->files.end(),
                                    [&](const RemoteFile& file) { return file.path == path; }));
    }
    check_space(files, remote->commit);
    commit_ = remote->commit;
    cache_.set_main_commit(commit_);
    for (const RemoteFile& file : files) {
      if (is_linked(commit_, file)) continue;
      get_blob(file);
      cache_.link(commit_, file.path, file.etag);
    }
    return (cache_.snapshot(commit_) / files.front().path).string();
  }

 private:
  // The file from the cache, as "main" was when it was last asked for.
  std::string from_cache(const std::string& reason) const {
    const std::optional<std::string> commit = cache_.main_commit();
    try {
      if (!commit) throw ModelError(name_.repository + " was never downloaded");
      const std::vector<std::string> files = choose_model_files(name_, cache_.paths(*commit));
      return (cache_.snapshot(*commit) / files.front()).string();
    } catch (const ModelError&) {
      throw Error(name_.text() + " is not in the cache " + cache_.folder().parent_path().string() + ", and " + reason);
    }
  }

  HttpRequest request(const std::string& url) const {
    HttpRequest request{url, {}, ""};
    if (!token_.empty()) request.headers.push_back("Authorization: Bearer " + token_);
    return request;
  }

  [[noreturn]] void fail(const HttpResponse& response) const {
    const std::string page = endpoint_ + "/" + name_.repository;
    const std::string code = " (HTTP " + std::to_string(response.status) + ")";
    // Private repositories give 401 without a token.
    const bool is_unknown = response.status == 401 || response.status == 404;
    if (response.status == 403 || (is_unknown && response.header("x-error-code") == "GatedRepo")) {
      throw Error(name_.repository + " is gated" + code + "; accept its conditions at " + page +
                  " and set HF_TOKEN to a token of that account");
    }
    if (is_unknown) {
      throw Error(name_.repository + " does not exist, or is private" + code + "; check the name at " + page +
                  (token_.empty() ? ", or set HF_TOKEN to a token that may read it" : "; HF_TOKEN may not read it"));
    }
    throw Error(page + ": the server answered with HTTP " + std::to_string(response.status) + "; try again later");
  }

  // Calls attempt(), which returns the response or throws ConnectionError, until it works or fails max_attempts times.
  // made_progress(): whether bytes arrived since the last attempt; failures are then counted from zero again.
  template <class Attempt, class Progress>
  HttpResponse with_patience(int max_attempts, Attempt attempt, Progress made_progress) {
    for (int failures = 0;; ++failures) {
      std::string problem;
      int wait = 1 << std::min(failures, 3);
      try {
        const HttpResponse response = attempt();
        const bool is_temporary = response.status == 429 || response.status == 408 || response.status >= 500;
        if (!is_temporary) return response;
        if (made_progress()) failures = 0;
        if (failures + 1 >= max_attempts) return response;
        problem = "HTTP " + std::to_string(response.status);
        const int asked = std::atoi(response.header("retry-after").c_str());
        if (asked > max_wait_s)
          throw Error("the hub asks to wait " + std::to_string(asked) + " seconds (HTTP " +
                      std::to_string(response.status) + "); try again then, or set HF_TOKEN");
        wait = std::max(wait, asked);
      } catch (const ConnectionError& error) {
        if (made_progress()) failures = 0;
        if (failures + 1 >= max_attempts) throw;
        problem = error.what();
      }
      tell(problem + "; trying again in " + std::to_string(wait) + (wait == 1 ? " second" : " seconds"));
      sleep(std::chrono::seconds(wait));
    }
  }

  RemoteRepository ask() {
    std::string body;
    const auto take = [&](const HttpResponse& response, const char* data, std::size_t bytes) {
      if (response.status == 200) body.append(data, bytes);
      if (body.size() > max_listing) throw Error(name_.repository + ": its description is longer than 64 MB");
      return true;
    };
    const std::string url = endpoint_ + "/api/models/" + name_.repository + "/revision/main?blobs=true";
    const HttpResponse response = with_patience(
        max_questions,
        [&] {
          body.clear();
          return http_get(request(url), take, [this] { return !goes_on(); });
        },
        [] { return false; });
    if (response.status != 200) fail(response);
    return read_listing(body);
  }

  // {"sha": "...", "siblings": [{"rfilename": "...", "size": 1, "blobId": "...", "lfs": {"sha256": "...", "size": 1}}]}
  RemoteRepository read_listing(const std::string& text) const {
    RemoteRepository repository;
    try {
      const Json json = Json::parse(text);
      repository.commit = json.at("sha").get<std::string>();
      for (const Json& entry : json.at("siblings")) {
        RemoteFile file{entry.at("rfilename").get<std::string>(), "", entry.value("size", std::uint64_t{0})};
        const auto lfs = entry.find("lfs");
        if (lfs != entry.end() && lfs->is_object()) {
          file.etag = lfs->at("sha256").get<std::string>();
          file.bytes = lfs->at("size").get<std::uint64_t>();
        } else {
          file.etag = entry.value("blobId", "");
        }
        const std::string inside = "/" + file.path + "/";
        const bool is_inside =
            inside.find("/../") == std::string::npos && inside.find("//") == std::string::npos && !file.path.empty();
        if (is_inside && is_etag(file.etag)) repository.files.push_back(file);
      }
      if (!is_commit(repository.commit)) throw Error("no commit");
    } catch (const std::exception& error) {
      throw Error(endpoint_ + ": the description of " + name_.repository + " cannot be read (" + error.what() +
                  "); is HF_ENDPOINT a hub?");
    }
    return repository;
  }

  bool is_linked(const std::string& commit, const RemoteFile& file) const {
    std::error_code ignored;
    return fs::is_regular_file(cache_.snapshot(commit) / file.path, ignored);
  }

  std::string partial(const RemoteFile& file) const { return cache_.blob(file.etag).string() + ".incomplete"; }

  void check_space(const std::vector<RemoteFile>& files, const std::string& commit) const {
    std::uint64_t wanted = 0;
    std::error_code error;
    for (const RemoteFile& file : files) {
      if (is_linked(commit, file) || fs::exists(cache_.blob(file.etag), error)) continue;
      const std::uint64_t there = fs::file_size(partial(file), error);
      const std::uint64_t missing = error ? file.bytes : file.bytes - std::min(there, file.bytes);
      wanted = missing > UINT64_MAX - wanted ? UINT64_MAX : wanted + missing;
    }
    fs::path folder = fs::absolute(cache_.folder());
    while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
    const fs::space_info space = fs::space(folder, error);
    if (error || wanted <= space.available) return;
    throw Error(name_.text() + " needs " + gigabytes(wanted) + ", and " + folder.string() + " has " +
                gigabytes(space.available) + " free; free some, or set HF_HOME to a folder on another disk");
  }

  // Puts the file among the blobs.
  void get_blob(const RemoteFile& file) {
    const fs::path blob = cache_.blob(file.etag);
    std::error_code ignored;
    if (fs::exists(blob, ignored)) return;
    CachedRepository::make_folder_of(blob);
    const fs::path lock_path = cache_.lock(file.etag);
    CachedRepository::make_folder_of(lock_path);
    File lock = File::open_or_create(lock_path.string());
    for (bool told = false; !lock.try_lock();) {
      if (!told) tell(file.path + " is being downloaded by another process; waiting for it");
      told = true;
      sleep(std::chrono::milliseconds(200));
    }
    if (fs::exists(blob, ignored)) return;  // the other process downloaded it
    if (!receive(file)) {
      tell(file.path + ": the download has another size or checksum than the hub states; downloading it once more");
      if (!receive(file)) {
        throw Error(file.path +
                    ": the download has another size or checksum than the hub states, twice; try again later, or "
                    "check proxies");
      }
    }
    replace_file(partial(file), blob.string());
  }

  // Appends to the partial file. Returns false if the result had the wrong checksum and was removed.
  bool receive(const RemoteFile& file) {
    File to = File::open_or_create(partial(file));
    Sha256 hash;
    std::uint64_t done = read_old(to, file, hash);
    std::uint64_t done_before = done;
    const std::string url = endpoint_ + "/" + name_.repository + "/resolve/" + commit_ + "/" + escaped(file.path);
    while (done < file.bytes) {
      bool is_longer = false, is_shorter = false, is_first = true;
      const auto take = [&](const HttpResponse& response, const char* data, std::size_t bytes) {
        if (response.status != 200 && response.status != 206)
          return response.status >= 300;                       // reads an error page to its end
        if (is_first && response.status == 200 && done > 0) {  // the server sends everything again
          done = 0;
          hash.finish();
        }
        const std::string expected = "bytes " + std::to_string(done) + "-";
        if (is_first && response.status == 206 &&
            response.header("content-range").compare(0, expected.size(), expected) != 0) {
          throw ConnectionError(endpoint_ + ": the server sent another part of the file than requested");
        }
        is_first = false;
        is_longer = bytes > file.bytes - done;
        if (is_longer) return false;
        to.write(done, data, bytes);
        hash.add(data, bytes);
        done += bytes;
        if (!goes_on({file.path, done, file.bytes})) throw Cancelled("interrupted");
        return true;
      };
      const HttpResponse response = with_patience(
          max_failures,
          [&] {
            done_before = done;
            is_first = true;
            HttpRequest part = request(url);
            if (done > 0) part.range = std::to_string(done) + "-";
            HttpResponse answer = http_get(part, take, [&] { return !goes_on({file.path, done, file.bytes}); });
            is_shorter = !is_longer && done < file.bytes && (answer.status == 200 || answer.status == 206);
            if (is_shorter && answer.header("content-length").empty())
              throw ConnectionError(endpoint_ + ": the connection ended early");
            return answer;
          },
          [&] { return done != done_before; });
      if (is_longer || is_shorter || response.status == 416) break;
      if (response.status != 200 && response.status != 206) fail(response);
    }
    const std::string sum = hash.finish();
    const bool is_right = done == file.bytes && (file.etag.size() != 64 || sum == file.etag);
    if (!is_right) {
      to.close();
      std::error_code ignored;
      fs::remove(partial(file), ignored);
      return false;
    }
    to.resize(done);
    to.sync();
    to.close();
    return true;
  }

  // Adds what an earlier download left to the hash, and returns how much it is.
  std::uint64_t read_old(const File& from, const RemoteFile& file, Sha256& hash) {
    std::vector<char> buffer(std::size_t{1} << 20);
    std::uint64_t done = 0;
    while (const std::size_t bytes = from.read_some(done, buffer.data(), buffer.size())) {
      if (bytes > file.bytes - done) {  // it cannot belong to this file
        hash.finish();
        return 0;
      }
      hash.add(buffer.data(), bytes);
      done += bytes;
      if (!goes_on({file.path, done, file.bytes})) throw Cancelled("interrupted");
    }
    return done;
  }

  static std::string escaped(const std::string& path) {
    std::string text;
    for (const char letter : path) {
      const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                            std::string("/-_.~").find(letter) != std::string::npos;
      const auto byte = static_cast<unsigned char>(letter);
      if (is_plain) text += letter;
      else text += {'%', "0123456789ABCDEF"[byte / 16], "0123456789ABCDEF"[byte % 16]};
    }
    return text;
  }

  void tell(const std::string& sentence) const {
    if (callbacks_.note) callbacks_.note(sentence);
  }
  bool goes_on(const HubProgress& progress = {"", 0, 0}) const {
    return !callbacks_.progress || callbacks_.progress(progress);
  }
  template <class Duration>
  void sleep(Duration duration) const {
    const auto end = std::chrono::steady_clock::now() + duration;
    while (std::chrono::steady_clock::now() < end) {
      if (!goes_on()) throw Cancelled("interrupted");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  HubName name_;
  bool with_projector_;
  HubCallbacks callbacks_;
  CachedRepository cache_;
  std::string endpoint_, token_;
  std::string commit_;  // of "main", once the hub has stated it
};

}  // namespace

std::string download_model(const HubName& name, const HubCallbacks& callbacks, bool with_projector) {
  return Download(name, callbacks, with_projector).run();
}

}  // namespace specdec
