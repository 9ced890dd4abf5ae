#include "llama/model.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "base/utf8.h"
#include "base/weight_types.h"
#include "ggml-backend.h"
#include "llama.h"
#include "llama/backend.h"
#include "llama/lost_devices.h"
#include "llama/matrices.h"
#include "llama/missing_kernels.h"
#include "llama/streamed_weights.h"
#include "llama/tensor_types.h"
#include "model_file/encoder.h"
#include "model_file/own_head.h"
#include "platform/file.h"
#include "platform/memory.h"

namespace specdec {

static_assert(type_id::f32 == GGML_TYPE_F32 && type_id::f16 == GGML_TYPE_F16 && type_id::q8_0 == GGML_TYPE_Q8_0 &&
                  type_id::mxfp6_e2m3 == GGML_TYPE_MXFP6_E2M3,
              "base/weight_types.h and ggml.h name the same types");

namespace {

std::string metadata(const llama_model* model, const std::string& key) {
  char value[256];
  return llama_model_meta_val_str(model, key.c_str(), value, sizeof(value)) < 0 ? std::string() : std::string(value);
}

// The system may promise memory that it does not have, and kill the process while the weights are read into it.
void check_memory(const std::vector<GgufFile>& parts) {
  const std::uint64_t needed = total_file_size(parts);
  const std::uint64_t available = available_memory();
  if (available == 0 || needed < available) return;
  throw ModelError(parts.front().path + ": not enough memory to read the weights into: " +
                   std::to_string((needed >> 20) + 1) + " MiB needed, " + std::to_string(available >> 20) +
                   " MiB available. Leave them in the mapped file (mmap=True, no --no-mmap)");
}

// A server may run any kernels of any version; stock llama.cpp closes the connection when it sees such a type.
void reject_mxfp6(const std::vector<GgufFile>& parts) {
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      if (!is_mxfp6(tensor.type)) continue;
      throw ModelError(part.path +
                       ": MXFP6 weights are computed on this machine only, not by RPC servers. Use the model in a "
                       "type of llama.cpp, such as F16 or Q8_0, or without RPC servers (rpc, --rpc)");
    }
  }
}

// Reports progress, and remembers whether the caller wants to stop.
class Watch {
 public:
  Watch(const LoadProgressCallback& callback, const std::string& what, const std::string& path)
      : callback_(callback), step_(what + " " + printable(std::filesystem::path(path).filename().string())) {}

  bool tell(double share) {
    if (callback_ && !callback_({step_, share})) is_cancelled_ = true;
    return !is_cancelled_;
  }
  void check() const {
    if (is_cancelled_) throw Cancelled("the model was not loaded to its end");
  }

 private:
  const LoadProgressCallback& callback_;
  std::string step_;
  bool is_cancelled_ = false;
};

// While llama.cpp maps a file, it waits for the disk without reporting progress; if the disk fails, it waits for ever
// (Linux retries a page of MAP_POPULATE again and again).
void read_ahead(const std::vector<GgufFile>& parts, const LoadProgressCallback& progress) {
  const std::uint64_t available = available_memory();
  for (const GgufFile& part : parts) {
    if (available != 0 && part.file_size > available)
      // A file that does not fit into memory would be read for nothing.
      continue;
    Watch watch(progress, "reading", part.path);
    File::open(part.path).read_ahead([&](double share) { return watch.tell(share); });
    watch.check();
  }
}

}  // namespace

Model::~Model() = default;

void Model::Free::operator()(llama_model* model) const { llama_model_free(model); }

Model::Model(const std::vector<GgufFile>& parts, const Options& options)
    : path_(parts.front().path), offload_(options.offload) {
  const std::vector<std::string>& rpc_servers = options.rpc_servers;
  if (!options.use_mmap && offload_.num_layers == 0) check_memory(parts);
  if (!rpc_servers.empty()) reject_mxfp6(parts);
  head_kind_ = options.with_head ? HeadKind::mtp : HeadKind::none;
  if (options.is_head) head_kind_ = head_file(parts).kind;
  else reject_head_alone(parts);
  if (head_kind_ == HeadKind::mtp) {
    const OwnHeadInfo head = own_head(parts);
    if (!head.problem.empty()) throw ModelError(path_ + ": " + head.problem);
    num_head_layers_ = head.num_layers;
    head_rows_need_logits_ = head.rows_need_logits;
  } else if (head_kind_ == HeadKind::assistant) {
    head_rows_need_logits_ = true;
  } else if (head_kind_ == HeadKind::block) {
    num_head_layers_ = static_cast<int>(parts.front().integer("dflash.block_count").value_or(0));
  } else if (head_kind_ != HeadKind::none) {
    num_head_layers_ = 1;
  }
  for (const std::string& address : rpc_servers) RpcAddress::parse(address);  // all are checked before any is contacted
  cache_shape_ = CacheShape::of(parts.front());
  std::vector<ggml_backend_device*> used;
  for (auto address = rpc_servers.begin(); address != rpc_servers.end(); ++address) {
    if (std::find(rpc_servers.begin(), address, *address) != address) {
      throw std::invalid_argument("RPC server " + *address + " is given twice");
    }
    rpc_servers_.push_back(RpcServer::connect(*address));
    used.insert(used.end(), rpc_servers_.back()->devices().begin(), rpc_servers_.back()->devices().end());
  }
  used.insert(used.end(), offload_.devices.begin(), offload_.devices.end());
  used.push_back(nullptr);  // ends the list
  start_backend();
  check_tensor_types(parts);
  take_backend_errors();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = offload_.num_layers;
  if (!options.use_mmap) params.load_mode = LLAMA_LOAD_MODE_NONE;
  params.devices = used.data();
  std::vector<llama_model_tensor_buft_override> overrides;
  for (const Offload::Override& override : offload_.overrides) {
    overrides.push_back({override.pattern.c_str(), override.device == nullptr
                                                       ? ggml_backend_cpu_buffer_type()
                                                       : ggml_backend_dev_buffer_type(override.device)});
  }
  overrides.push_back({nullptr, nullptr});
  if (overrides.size() > 1) params.tensor_buft_overrides = overrides.data();
  std::vector<float> split = offload_.split;
  split.resize(llama_max_devices());
  if (!offload_.split.empty()) params.tensor_split = split.data();
  params.load_mtp = head_kind_ == HeadKind::mtp;
  params.use_extra_bufts =
      false;  // llama.cpp's repacked weights round differently for each batch size; ours are in weight_tiles.h
  if (Q8Copy::is_needed(parts, offload_)) {
    copy_ = std::make_unique<Q8Copy>(parts, offload_, options.progress);
  } else if (options.tile_cache != nullptr || options.streams) {
    tile_cache_ = options.tile_cache;
    files_ = std::make_unique<ModelFiles>(parts);
  }
  if (options.streams) parts_ = parts;
  // With kept tiles little of the file is needed; reading the rest would be a waste.
  const bool is_kept =
      tile_cache_ != nullptr && files_ != nullptr && offload_.num_layers == 0 && tile_cache_->has_tiles_of(*files_);
  if (options.use_mmap && (is_kept || options.streams)) params.load_mode = LLAMA_LOAD_MODE_MMAP;
  else if (options.use_mmap) read_ahead(copy_ ? GgufFile::read_parts(copy_->path()) : parts, options.progress);
  Watch watch(options.progress, "loading", path_);
  params.progress_callback = [](float share, void* watching) {
    return static_cast<Watch*>(watching)->tell(static_cast<double>(share));
  };
  params.progress_callback_user_data = &watch;
  {
    const AbortsAsErrors guard;
    model_.reset(llama_model_load_from_file(copy_ ? copy_->path().c_str() : path_.c_str(), params));
  }
  check_devices();
  watch.check();
  if (!model_) {
    const bool has_head = own_head(parts).num_layers > 0;
    const std::string errors = take_backend_errors();
    check_devices(errors);
    throw ModelError(
        path_ + ": llama.cpp cannot load this model: " + errors + device_remedy() +
        (options.with_head ? ". Without its drafting head it may load: use another draft than \"mtp\", or none" : "") +
        (options.is_head
             ? ". It is given as a drafting head: use another draft, or none, or convert or download the head again"
             : "") +
        (has_head ? ". If a tensor of its multi-token prediction layers is missing or of another size, convert or "
                    "download it again"
                  : ""));
  }
  weights_without_kernels_ = specdec::weights_without_kernels(get(), parts, offload_);
  const bool makes_tokens =
      llama_model_has_decoder(get()) && !llama_model_is_diffusion(get()) && !llama_model_has_encoder(get());
  if (!options.is_head && !makes_tokens) {
    throw ModelError(path_ + ": architecture " + architecture() +
                     " is not a decoder-only language model; only those can generate here");
  }
  if (llama_vocab_type(llama_model_get_vocab(get())) == LLAMA_VOCAB_TYPE_NONE) {
    throw ModelError(path_ + ": the file has no vocabulary; convert the model with its tokenizer");
  }
  if (head_kind_ == HeadKind::block) {
    try {
      block_rows_ = std::make_unique<BlockRows>(get());
    } catch (const std::invalid_argument& problem) {
      throw ModelError(path_ + ": " + problem.what());
    }
  }
}

// Runs copy(progress), which takes this many bytes. Returns why it was not run.
std::string Model::copy_weights(const std::string& what, std::uint64_t bytes, std::uint64_t memory_to_leave,
                                const LoadProgressCallback& progress,
                                const std::function<void(const std::function<void(double)>&)>& copy) {
  if (bytes == 0) return "";
  const std::uint64_t available = available_memory();
  const std::string problem = path_ + ": " + what + ": ";
  if (available != 0 && bytes + memory_to_leave > available) {
    return problem + mebibytes(bytes) + " needed and " + mebibytes(memory_to_leave) + " to be left, " +
           mebibytes(available) + " available";
  }
  Watch watch(progress, "arranging the weights of", path_);
  try {
    copy([&](double share) {
      watch.tell(share);
      watch.check();
    });
  } catch (const std::bad_alloc&) {
    return problem + "the system gives no " + mebibytes(bytes);
  }
  return "";
}

std::string Model::repack(TileWeights weights, int num_threads, std::uint64_t memory_to_leave,
                          const LoadProgressCallback& progress) {
  return copy_weights("the weights are not repacked, which makes passes of few tokens slower",
                      WeightTiles::bytes_of(get(), weights), memory_to_leave, progress, [&](const auto& tell) {
                        tiles_ = std::make_unique<WeightTiles>(get(), weights, num_threads, tell, tile_cache_.get(),
                                                               files_.get());
                        if (!parts_.empty()) expect_random_reads(get());
                      });
}

std::string Model::stream(TileCache& cache, std::uint64_t memory, int num_threads, TileWeights copies,
                          const LoadProgressCallback& progress) {
  Watch watch(progress, "arranging the weights of", path_);
  const auto tell = [&](double share) {
    watch.tell(share);
    watch.check();
  };
  const std::string problem =
      path_ + ": the weights are larger than the memory, and they are read through the system's cache, which is slow: ";
  try {
    streamed_ =
        std::make_unique<StreamedWeights>(get(), StreamedFiles{parts_, *files_, cache},
                                          StreamedWeights::Options{memory, has_head(), num_threads, copies}, tell);
    expect_random_reads(get());
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    return problem + error.what();
  } catch (const std::bad_alloc&) {
    return problem + "the system gives no memory";
  }
  return "";
}

std::uint64_t Model::least_streamed_memory(int num_threads, TileWeights copies) const {
  return StreamedWeights::least_memory(get(), parts_, {0, has_head(), num_threads, copies});
}

std::string Model::round(TileWeights weights, int num_threads, const LoadProgressCallback& progress) {
  const std::uint64_t bytes = streamed_ ? 0 : WeightTiles::bytes_of(get(), weights);  // stream() has left room for them
  return copy_weights("its weights are not rounded, so that drafts take as long as its own passes",
                      std::max<std::uint64_t>(bytes, 1), 0, progress, [&](const auto& tell) {
                        rounded_ = std::make_unique<RoundedWeights>(get(), weights, streamed_ != nullptr, num_threads,
                                                                    tell, tile_cache_.get(), files_.get());
                      });
}

double Model::seconds_of_reading() const {
  return streamed_ ? static_cast<double>(streamed_->bytes().streamed) / streamed_->bytes_per_second() : 0;
}

void Model::check_stream() const {
  const std::string problem = streamed_ ? streamed_->take_problem() : "";
  if (!problem.empty()) throw ModelError(path_ + ": weights could not be read during a pass: " + problem);
}

std::string Model::shortlist_output(const Model& target, int num_threads, const LoadProgressCallback& progress) {
  return copy_weights("the drafting head has no shortlist of tokens, which makes its passes slower",
                      HeadOutput::bytes_of(get(), head_kind_, target.get()), 0, progress, [&](const auto& tell) {
                        head_output_ = std::make_unique<HeadOutput>(get(), head_kind_, target.get(), num_threads, tell);
                      });
}

Vocabulary Model::vocabulary() const { return {llama_model_get_vocab(get()), path_}; }
int Model::num_layers() const { return llama_model_n_layer(get()); }

int Model::trained_context() const { return llama_model_n_ctx_train(get()); }
std::uint64_t Model::weight_bytes() const { return llama_model_size(get()); }
std::uint64_t Model::num_parameters() const { return llama_model_n_params(get()); }
bool Model::can_roll_back() const { return !llama_model_is_recurrent(get()) && !llama_model_is_hybrid(get()); }

void Model::check_devices(const std::string& error) const {
  for (const auto& server : rpc_servers_) server->check();
  if (!error.empty()) (void)finish(devices(), error, [] {});
  const std::string problem = lost_problem(devices());
  if (!problem.empty()) throw ModelError(path_ + ": " + problem);
}

std::string Model::device_names() const {
  std::string names;
  for (ggml_backend_dev_t device : offload_.devices) {
    names += (names.empty() ? "" : ", ") + printable(ggml_backend_dev_name(device));
  }
  return names;
}

std::string Model::device_remedy() const {
  if (!is_on_device()) return "";
  return ". If the memory of " + device_names() +
         " is full, ask for fewer layers (n_gpu_layers, -ngl) or a shorter context (n_ctx, -c)";
}

int Model::num_local_layers() const {
  const int layers = llama_model_n_layer(get());
  if (rpc_servers_.empty() && !is_on_device()) return layers;
  return offload_.num_layers < 0 ? 0 : std::clamp(layers + 1 - offload_.num_layers, 0, layers);
}

bool Model::is_all_elsewhere() const { return num_local_layers() == 0 && offload_.overrides.empty(); }

std::string Model::chat_template(bool for_tools) const {
  const char* text = llama_model_chat_template(get(), for_tools ? "tool_use" : nullptr);
  return text == nullptr ? "" : text;
}

std::string Model::architecture() const { return printable(metadata(get(), "general.architecture")); }

bool Model::is_encoder() const { return specdec::is_encoder(architecture()); }

std::uint64_t Model::cache_bytes(std::uint64_t tokens, KvType type) const {
  return cache_shape_.bytes(tokens, type, idx(num_local_layers()));
}

std::uint64_t Model::head_cache_bytes(std::uint64_t tokens, KvType type) const {
  return cache_shape_.bytes_of_last(tokens, type, idx(num_head_layers_));
}

}  // namespace specdec
