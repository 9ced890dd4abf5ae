#include "platform/output_file.h"

#include <charconv>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "platform/process.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr char mark[] = ".partial-";
constexpr int most_attempts = 100;
constexpr std::chrono::hours long_enough(1);  // without a write, where files cannot be locked

[[noreturn]] void fail(const std::string& path, const std::string& problem) { throw Error(path + ": " + problem); }

// The path that a link to a file leads to.
std::string without_link(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target.string();
}

// The number after the last ".part" or ".partial-" of a name; nullopt: none.
std::optional<std::uint64_t> writer_of(const std::string& name) {
  const std::size_t part = name.rfind(".part"), digits = name.find_first_of("0123456789", part);
  std::uint64_t id = 0;
  if (part == std::string::npos || digits == std::string::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), id);
  return error == std::errc() ? std::optional<std::uint64_t>(id) : std::nullopt;
}

bool has_rested(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - time > long_enough;
}

}  // namespace

void check_output(const std::string& path, bool overwrites, const std::string& remedy) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    const fs::path folder = fs::absolute(path, error).parent_path();
    if (!fs::is_directory(folder, error)) fail(path, "there is no folder " + folder.string() + "; create it");
    return;
  }
  if (error) fail(path, "cannot be examined: " + error.message());
  if (!fs::is_regular_file(status)) fail(path, "is not a regular file; name the file to write");
  if (!overwrites) fail(path, "exists already; name another file, or " + remedy);
}

bool is_abandoned(const fs::path& partial) noexcept {
  try {
    const std::optional<std::uint64_t> writer = writer_of(partial.filename().string());
    if (writer && *writer != process_id() && is_running(*writer)) return false;
    File file = File::open(partial.string());
    try {
      return file.try_lock();
    } catch (const Error&) {
      return has_rested(partial);
    }
  } catch (const std::exception&) {  // it is gone, or belongs to someone else
    return false;
  }
}

void remove_abandoned(const fs::path& path) noexcept {
  try {
    const std::string start = path.filename().string() + mark;
    std::error_code error;
    for (fs::directory_iterator at(fs::absolute(path).parent_path(), error), end; !error && at != end;
         at.increment(error)) {
      std::error_code ignored;
      if (at->path().filename().string().rfind(start, 0) == 0 && is_abandoned(at->path()))
        fs::remove(at->path(), ignored);
    }
  } catch (const std::exception&) {  // no memory
  }
}

// Between creation and lock, another process may take the file for abandoned: it holds the lock for a moment, and may
// then have removed the file.
std::optional<File> claim_partial(const std::string& partial) {
  std::optional<File> file = File::create_new(partial);
  if (!file) return std::nullopt;
  try {
    if (!file->try_lock()) return std::nullopt;
  } catch (const Error&) {
    return file;  // files cannot be locked there
  }
  std::error_code error;
  return fs::exists(partial, error) ? std::move(file) : std::nullopt;
}

OutputFile::OutputFile(const std::string& path, bool overwrites, std::string remedy)
    : path_(without_link(path)), remedy_(std::move(remedy)), overwrites_(overwrites) {
  check_output(path_, overwrites_, remedy_);
  remove_abandoned(path_);
  for (int attempt = 0; attempt < most_attempts && !file_; ++attempt) {
    partial_ = path_ + mark + std::to_string(process_id()) + (attempt == 0 ? "" : "-" + std::to_string(attempt));
    file_ = claim_partial(partial_.string());
  }
  if (!file_)
    fail(path_, "its folder has too many temporary files such as " + std::exchange(partial_, fs::path()).string() +
                    "; remove them");
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      remedy_(std::move(other.remedy_)),
      overwrites_(other.overwrites_),
      partial_(std::exchange(other.partial_, fs::path())),
      file_(std::exchange(other.file_, std::nullopt)) {}

OutputFile::~OutputFile() {
  file_.reset();  // first: some systems cannot remove an open file
  std::error_code error;
  if (!partial_.empty()) fs::remove(partial_, error);
}

void OutputFile::publish() {
  check_output(path_, overwrites_, remedy_);  // it may have been created meanwhile
  file_->close();
  file_.reset();
  replace_file(partial_.string(), path_);
  partial_.clear();
}

}  // namespace specdec
