// A GGUF model, checked before llama.cpp sees it, and mapped into memory or read into huge pages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "llama/block_rows.h"
#include "llama/head_output.h"
#include "llama/load_progress.h"
#include "llama/q8_0_copy.h"
#include "llama/rounded_weights.h"
#include "llama/rpc_server.h"
#include "llama/vocabulary.h"
#include "llama/weight_tiles.h"
#include "model_file/head_file.h"
#include "model_file/kv_cache.h"

struct llama_model;

namespace specdec {

class StreamedWeights;

class Model {
 public:
  struct Options {
    // true: weights are mapped; pages are read on first use and shared with other processes. false: weights are read
    // into private memory, in huge pages (huge_pages.h) if available.
    bool use_mmap = true;
    Offload offload;                        // to devices of this machine, and to
    std::vector<std::string> rpc_servers;   // "HOST:PORT", which come first
    bool with_head = false;                 // also loads the drafting head, which the file must have (own_head.h)
    bool is_head = false;                   // the file holds only a drafting head (head_file.h)
    LoadProgressCallback progress;          // null: no reports
    std::shared_ptr<TileCache> tile_cache;  // null: none
    bool streams = false;                   // stream() follows, so the mapped file is not read ahead
  };

  explicit Model(const std::string& path) : Model(GgufFile::read_parts(path), Options()) {}
  // parts: from GgufFile::read_parts. Throws ModelError that names the file, the problem and the remedy; Cancelled.
  Model(const std::vector<GgufFile>& parts, const Options& options);
  ~Model();

  const std::string& path() const { return path_; }
  llama_model* get() const { return model_.get(); }
  Vocabulary vocabulary() const;
  int trained_context() const;
  int num_layers() const;  // without multi-token prediction layers
  std::uint64_t num_parameters() const;
  // Whether layers run on devices of this machine, whose kernels are not batch-invariant (docs/losslessness.md).
  bool is_on_device() const { return offload_.is_used(); }
  bool is_all_elsewhere() const;     // on devices or RPC servers, except the embedding and what devices cannot do
  std::string device_names() const;  // "Vulkan0, Vulkan1"
  // Weights that these have no kernels for, which the CPU therefore multiplies: "12 MiB in TQ2_0"; empty: none.
  const std::string& weights_without_kernels() const { return weights_without_kernels_; }
  std::string device_remedy() const;  // the end of an error's sentence; empty if no layer runs on a device
  const std::vector<ggml_backend_device*>& devices() const { return offload_.devices; }
  // False for recurrent models, whose state cannot be truncated.
  bool can_roll_back() const;
  bool has_head() const { return head_kind_ != HeadKind::none; }  // whether a drafting head is loaded
  HeadKind head_kind() const { return head_kind_; }
  int num_head_layers() const { return num_head_layers_; }
  bool head_rows_need_logits() const { return head_rows_need_logits_; }  // OwnHeadInfo
  const BlockRows* block_rows() const { return block_rows_.get(); }      // of a block drafter
  std::string architecture() const;
  bool is_encoder() const;  // makes embeddings (EmbeddingContext), but no text
  // A Jinja template; empty: none. for_tools: the separate template for conversations with tools.
  std::string chat_template(bool for_tools = false) const;
  // Bytes of this machine's memory for a KV cache of this many tokens.
  std::uint64_t cache_bytes(std::uint64_t tokens, KvType type = KvType::f16) const;
  std::uint64_t head_cache_bytes(std::uint64_t tokens, KvType type) const;
  const CacheShape& cache_shape() const { return cache_shape_; }
  std::uint64_t weight_bytes() const;

  // Copies the stock weights of mapped files into tiles (weight_tiles.h), unless this would leave less than
  // memory_to_leave bytes of memory. Returns a sentence that says why it was not done; empty if it was, or if there are
  // no such weights. Must not be called during a pass. Throws Cancelled.
  std::string repack(TileWeights weights, int num_threads, std::uint64_t memory_to_leave,
                     const LoadProgressCallback& progress = {});
  bool is_repacked() const { return tiles_ != nullptr; }
  // Makes the HeadOutput of the loaded drafting head if that helps. The target may be in the same file or in another
  // one. Returns and throws what repack() does; call repack() first.
  std::string shortlist_output(const Model& target, int num_threads, const LoadProgressCallback& progress = {});
  // Keeps as many weights as fit into this many bytes, at least least_streamed_memory(), and reads the others from the
  // disk in every pass (streamed_weights.h). cache: where tiles of the model are kept. num_threads: of passes. copies:
  // those that round() will make, for which the memory must suffice, too; exact: none. Progress as in repack(). Returns
  // why it was not done; empty: it was.
  std::string stream(TileCache& cache, std::uint64_t memory, int num_threads, TileWeights copies = TileWeights::exact,
                     const LoadProgressCallback& progress = {});
  std::uint64_t least_streamed_memory(int num_threads, TileWeights copies = TileWeights::exact) const;
  // Makes copies with which the model drafts for itself (rounded_weights.h), after repack() or stream(). Returns and
  // throws what repack() does.
  std::string round(TileWeights weights, int num_threads, const LoadProgressCallback& progress = {});
  const RoundedWeights* rounded_weights() const { return rounded_.get(); }     // null: there are none
  const StreamedWeights* streamed_weights() const { return streamed_.get(); }  // null: nothing is streamed
  double seconds_of_reading() const;  // from the disk in every pass; 0: nothing
  // Throws ModelError if weights could not be read since the last call.
  void check_stream() const;
  // Throws ModelError once one of them, or an RPC server, is lost, or if this error of a failed call says so.
  void check_devices(const std::string& error = "") const;

 private:
  struct Free {
    void operator()(llama_model* model) const;
  };
  int num_local_layers() const;
  std::string copy_weights(const std::string& what, std::uint64_t bytes, std::uint64_t memory_to_leave,
                           const LoadProgressCallback& progress,
                           const std::function<void(const std::function<void(double)>&)>& copy);

  std::string path_;
  std::vector<GgufFile> parts_;  // headers, if weights of the target will be streamed
  Offload offload_;
  std::string weights_without_kernels_;
  HeadKind head_kind_ = HeadKind::none;
  int num_head_layers_ = 0;
  bool head_rows_need_logits_ = false;
  CacheShape cache_shape_;
  std::vector<std::shared_ptr<const RpcServer>> rpc_servers_;
  std::shared_ptr<TileCache> tile_cache_;  // null: none
  std::unique_ptr<ModelFiles> files_;      // for the tile cache
  std::unique_ptr<WeightTiles> tiles_;
  std::unique_ptr<StreamedWeights> streamed_;
  std::unique_ptr<RoundedWeights> rounded_;
  std::unique_ptr<HeadOutput> head_output_;
  std::unique_ptr<BlockRows> block_rows_;
  std::unique_ptr<Q8Copy> copy_;  // the model may be mapped from it
  std::unique_ptr<llama_model, Free> model_;
};

}  // namespace specdec
