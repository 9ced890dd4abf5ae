#include "quantize/calibration.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "ggml.h"
#include "llama.h"
#include "llama/backend.h"
#include "llama/context.h"
#include "llama/model.h"
#include "platform/cores.h"
#include "quantize/moments.h"

namespace specdec {
namespace {

constexpr int tokens_per_pass = 128;

// ---- Inputs of multiplications

// Supported weights: plain 2-D or 3-D tensors (no views) whose columns are whole blocks.
bool multiplies_weights(const ggml_tensor* op) {
  if (op->op != GGML_OP_MUL_MAT && op->op != GGML_OP_MUL_MAT_ID) return false;
  const ggml_tensor *w = op->src[0], *x = op->src[1];
  const std::string name = w->name;
  const std::string end = "weight";
  return w->op == GGML_OP_NONE && w->ne[3] == 1 && w->ne[0] % 32 == 0 && name.size() > end.size() &&
         name.compare(name.size() - end.size(), end.size(), end) == 0 && x->type == GGML_TYPE_F32 &&
         x->nb[0] == sizeof(float);
}

const float* row_of(const ggml_tensor* t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return reinterpret_cast<const float*>(static_cast<const char*>(t->data) + idx(i1) * t->nb[1] + idx(i2) * t->nb[2] +
                                        idx(i3) * t->nb[3]);
}

// Calls visit(matrix, x) for every activation row x and the matrix it is multiplied with.
template <typename Visit>
void each_row(const ggml_tensor* op, const Visit& visit) {
  const ggml_tensor *w = op->src[0], *x = op->src[1];
  if (op->op == GGML_OP_MUL_MAT) {
    for (std::int64_t i3 = 0; i3 < x->ne[3]; ++i3) {
      for (std::int64_t i2 = 0; i2 < x->ne[2]; ++i2) {
        for (std::int64_t i1 = 0; i1 < x->ne[1]; ++i1) visit(i2 / (x->ne[2] / w->ne[2]), row_of(x, i1, i2, i3));
      }
    }
    return;
  }
  const ggml_tensor* ids = op->src[2];  // int32 [experts used, tokens]
  for (std::int64_t token = 0; token < ids->ne[1]; ++token) {
    for (std::int64_t used = 0; used < ids->ne[0]; ++used) {
      const auto* at = static_cast<const char*>(ids->data) + idx(token) * ids->nb[1] + idx(used) * ids->nb[0];
      visit(*reinterpret_cast<const std::int32_t*>(at), row_of(x, used % x->ne[1], token, 0));
    }
  }
}

// An activation tensor that one or more weight tensors are multiplied with. Tensors of experts have moments per expert.
struct Input {
  std::int64_t columns, matrices;
  bool wanted = false;
  std::vector<Moments> moments;

  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(columns) * static_cast<std::uint64_t>(columns) *
           static_cast<std::uint64_t>(matrices) * sizeof(float);
  }
};

}  // namespace

// Reads the text with llama.cpp's evaluation callback. It is called before every operation, to ask whether to observe
// it, and after each operation to observe.
class Calibration::Reader {
 public:
  Reader(const std::string& path, const std::string& text, const CalibrationOptions& options)
      : options_(options),
        model_(path),
        threads_(options.num_threads > 0 ? options.num_threads : default_threads()),
        tokens_(model_.vocabulary().tokenize(text)) {
    const auto needed = idx(options_.window);
    if (tokens_.size() < needed) {
      throw std::invalid_argument("the calibration text has " + std::to_string(tokens_.size()) +
                                  " tokens, but at least " + std::to_string(needed) +
                                  " are needed; give a longer text, about 100 KB");
    }
    if (options_.max_tokens > 0 && tokens_.size() > options_.max_tokens) tokens_.resize(options_.max_tokens);
    make_context();
    discovering_ = true;
    read_pass(0, 1);
    discovering_ = false;
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Moments* moments(const std::string& tensor, std::uint64_t index) {
    const auto found = input_of_.find(tensor);
    if (found == input_of_.end()) return nullptr;
    Input& input = inputs_[found->second];
    if (index >= static_cast<std::uint64_t>(input.matrices)) return nullptr;
    if (input.moments.empty()) collect_from(tensor);
    const Moments& moments = input.moments[index];
    return moments.tokens > 0 ? &moments : nullptr;
  }

  std::size_t num_tokens() const { return tokens_.size(); }

 private:
  struct Free {
    void operator()(llama_context* context) const { llama_free(context); }
  };
  struct Batch {
    Batch() = default;
    ~Batch() { llama_batch_free(value); }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    llama_batch value = llama_batch_init(tokens_per_pass, 0, 1);
  };

  void make_context() {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(options_.window);
    params.n_batch = params.n_ubatch = params.n_outputs_max = params.n_outputs_max_per_seq = tokens_per_pass;
    params.n_seq_max = 1;
    params.n_threads = params.n_threads_batch = threads_.size();
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.swa_full = true;
    params.no_perf = true;
    params.cb_eval = [](ggml_tensor* op, bool ask, void* self) { return static_cast<Reader*>(self)->observe(op, ask); };
    params.cb_eval_user_data = this;
    take_backend_errors();
    context_.reset(llama_init_from_model(model_.get(), params));
    if (!context_) throw ModelError(model_.path() + ": llama.cpp cannot create a context: " + take_backend_errors());
    llama_attach_threadpool(context_.get(), threads_.get(), threads_.get());
  }

  // ---- Passes

  // Collects as many moments as fit into the memory, starting with this tensor's.
  void collect_from(const std::string& tensor) {
    std::uint64_t bytes = 0;
    std::size_t count = 0;
    for (Input& input : inputs_) input.moments.clear();
    const std::vector<std::string>& order = options_.order.empty() ? tensors_ : options_.order;
    for (auto at = std::find(order.begin(), order.end(), tensor); at != order.end(); ++at) {
      const auto found = input_of_.find(*at);
      if (found == input_of_.end()) continue;
      Input& input = inputs_[found->second];
      if (input.wanted) continue;
      if (count > 0 && bytes + input.bytes() > options_.memory) break;
      bytes += input.bytes();
      const auto size = idx(input.columns * input.columns);
      for (std::int64_t m = 0; m < input.matrices; ++m)
        input.moments.push_back({input.columns, 0, std::vector<float>(size)});
      input.wanted = true;
      ++count;
    }
    read_text(count);
    for (Input& input : inputs_) input.wanted = false;
  }

  void read_text(std::size_t num_inputs) {
    std::vector<Token> window;
    for (std::size_t begin = 0; begin < tokens_.size(); begin += idx(options_.window)) {
      const std::size_t end = std::min(tokens_.size(), begin + idx(options_.window));
      llama_memory_clear(llama_get_memory(context_.get()), false);
      for (std::size_t at = begin; at < end; at += tokens_per_pass) {
        if (options_.progress && !options_.progress({at, tokens_.size(), num_inputs})) throw Cancelled("interrupted");
        read_pass(at, std::min<std::size_t>(tokens_per_pass, end - at), at - begin);
      }
    }
  }

  // Requests logits of all tokens, because llama.cpp runs the last layer only for tokens with logits.
  void read_pass(std::size_t first, std::size_t count, std::size_t position = 0) {
    const Vocabulary vocabulary = model_.vocabulary();
    llama_batch& batch = batch_.value;
    batch.n_tokens = static_cast<std::int32_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool begins = position + i == 0 && vocabulary.adds_bos();
      batch.token[i] = begins ? vocabulary.bos() : tokens_[first + i];
      batch.pos[i] = static_cast<llama_pos>(position + i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    left_ = idx(std::count_if(inputs_.begin(), inputs_.end(), [](const Input& input) { return input.wanted; }));
    seen_.clear();
    const int status = llama_decode(context_.get(), batch);
    if (status != 0)
      throw ModelError(model_.path() + ": reading the calibration text failed (status " + std::to_string(status) +
                       "): " + take_backend_errors());
  }

  // ---- Operations

  // Before the operation: returns whether to observe it. After it: returns whether to continue the pass.
  bool observe(const ggml_tensor* op, bool ask) {
    if (!multiplies_weights(op)) return !ask;
    if (discovering_) {
      if (ask) discover(op);
      return !ask;
    }
    const auto found = input_of_.find(op->src[0]->name);
    if (found == input_of_.end()) return !ask;
    Input& input = inputs_[found->second];
    const bool first = input.wanted && seen_.find(found->second) == seen_.end();
    if (ask) return first;
    if (first) {
      seen_[found->second] = true;
      add(op, input);
      --left_;
    }
    return left_ > 0;
  }

  // Tensors with the same activations (and the same selection of experts) share moments.
  void discover(const ggml_tensor* op) {
    const std::string name = op->src[0]->name;
    if (input_of_.count(name) > 0) return;
    tensors_.push_back(name);
    const auto key = std::make_pair(op->src[1], op->op == GGML_OP_MUL_MAT_ID ? op->src[2] : nullptr);
    const auto known = discovered_.find(key);
    if (known != discovered_.end() && inputs_[known->second].matrices == op->src[0]->ne[2]) {
      input_of_[name] = known->second;
      return;
    }
    input_of_[name] = discovered_[key] = inputs_.size();
    inputs_.push_back({op->src[0]->ne[0], op->src[0]->ne[2], false, {}});
  }

  void add(const ggml_tensor* op, Input& input) {
    std::vector<std::vector<float>> rows(idx(input.matrices));
    each_row(op, [&](std::int64_t matrix, const float* x) {
      std::vector<float>& to = rows[idx(matrix)];
      to.insert(to.end(), x, x + input.columns);
    });
    for (std::size_t m = 0; m < rows.size(); ++m) {
      const auto n = static_cast<std::int64_t>(rows[m].size()) / input.columns;
      if (n > 0) add_moments(rows[m].data(), n, input.columns, input.moments[m].sums.data(), threads_.size());
      input.moments[m].tokens += idx(n);
    }
  }

  CalibrationOptions options_;
  Model model_;
  ThreadPool threads_;
  std::vector<Token> tokens_;
  std::unique_ptr<llama_context, Free> context_;
  Batch batch_;
  bool discovering_ = false;
  std::vector<Input> inputs_;                    // in the order in which the model uses them
  std::vector<std::string> tensors_;             // likewise
  std::map<std::string, std::size_t> input_of_;  // tensor -> inputs_
  std::map<std::pair<const ggml_tensor*, const ggml_tensor*>, std::size_t> discovered_;
  std::map<std::size_t, bool> seen_;  // inputs of the current pass
  std::size_t left_ = 0;              // inputs to collect that the pass has not reached yet
};

Calibration::Calibration(const std::string& model, const std::string& text, const CalibrationOptions& options)
    : reader_(std::make_unique<Reader>(model, text, options)) {}
Calibration::~Calibration() = default;
const Moments* Calibration::moments(const std::string& tensor, std::uint64_t index) {
  return reader_->moments(tensor, index);
}
std::size_t Calibration::num_tokens() const { return reader_->num_tokens(); }

}  // namespace specdec
