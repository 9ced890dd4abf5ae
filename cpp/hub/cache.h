// The Hugging Face cache on disk, in the layout of the Python package huggingface_hub, so that both use each other's
// downloads:
//
//   $HF_HUB_CACHE, or $HF_HOME/hub, or ~/.cache/huggingface/hub
//     models--OWNER--NAME/refs/main               the commit that "main" was when it was last asked for
//     models--OWNER--NAME/blobs/ETAG              contents; ETAG is the SHA-256 for large files
//     models--OWNER--NAME/snapshots/COMMIT/PATH   links to blobs
//     .locks/models--OWNER--NAME/ETAG.lock        locked (flock) by the process that downloads that blob
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace specdec {

// Settings from environment variables.
std::filesystem::path hub_home();   // $HF_HOME
std::filesystem::path hub_cache();  // $HF_HUB_CACHE
std::string hub_endpoint();         // $HF_ENDPOINT, without a slash at the end
std::string hub_token();            // $HF_TOKEN, or the one that `hf auth login` saved; empty: none
bool is_hub_offline();              // $HF_HUB_OFFLINE

// A repository's folder in the cache. All functions but the last three throw nothing.
class CachedRepository {
 public:
  explicit CachedRepository(const std::string& repository);  // "owner/name"

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path lock(const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }
  std::optional<std::string> main_commit() const;                   // nullopt: never asked for
  std::vector<std::string> paths(const std::string& commit) const;  // of the cached files

  // Throw Error.
  void set_main_commit(const std::string& commit) const;
  void link(const std::string& commit, const std::string& path,
            const std::string& etag) const;  // replaces a broken link
  static void make_folder_of(const std::filesystem::path& path);

 private:
  std::filesystem::path root_, folder_;
};

bool is_commit(const std::string& text);  // 40 hexadecimal digits
bool is_etag(const std::string& text);    // 40 or 64 hexadecimal digits

}  // namespace specdec
