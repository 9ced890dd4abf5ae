#include "engine/device_check.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/index.h"
#include "engine/loaded_models.h"
#include "engine/option.h"
#include "engine/pass_times.h"
#include "engine/placement.h"
#include "llama/context.h"
#include "llama/invariant_kernels.h"

namespace specdec {
namespace {

constexpr int prompt = 224, checked_length = 288;  // across a step of the cache

using Cut = std::vector<int>;  // tokens of successive passes, repeated

// Rows after the prompt: [checked_length - prompt][vocabulary]
std::vector<float> rows_of(Context& context, const std::vector<Token>& text, const Cut& cut) {
  context.truncate(0, 0);
  context.expect_prompt(0, prompt);
  context.decode({{0, text.data(), prompt, 0}});
  std::vector<float> rows;
  std::size_t pass = 0;
  for (int at = prompt; at < checked_length; ++pass) {
    const int count = std::min(cut[pass % cut.size()], checked_length - at);
    context.decode({{0, text.data() + at, count, count}});
    for (int row = 0; row < count; ++row) {
      rows.insert(rows.end(), context.logits(row), context.logits(row) + context.vocabulary_size());
    }
    at += count;
  }
  return rows;
}

int num_differing(const std::vector<float>& a, const std::vector<float>& b, int size) {
  int count = 0;
  for (std::size_t at = 0; at < a.size(); at += idx(size)) {
    if (std::memcmp(a.data() + at, b.data() + at, idx(size) * sizeof(float)) != 0) ++count;
  }
  return count;
}

}  // namespace

std::string DeviceCheck::text() const {
  const std::string rows = " of " + std::to_string(num_rows) + " rows ";
  const std::string at_width = (pads ? "at width " : "at widths 1 to ") + std::to_string(width);
  std::string text = places + ". ";
  text += is_exact() ? "Exact " + at_width + ": no row depends on how a text is divided into passes"
                     : "Not exact " + at_width + ": " + std::to_string(num_differing) + rows +
                           "depend on how a text is divided into passes, so drafts may change the output";
  text += num_narrow > 0 ? "; with --no-exact " + std::to_string(num_narrow) + rows + "do"
                         : "; with --no-exact none does either";
  text += ". A pass over one token takes " + format("%.2f", cost) + " times as long as with --no-exact.";
  return text + " Other devices, drivers and numbers of layers on them give other bits.";
}

DeviceCheck check_device(const std::string& path, const std::vector<std::string>& devices, int num_threads) {
  const std::vector<GgufFile> parts = GgufFile::read_parts(path);
  Context::Options narrow;
  narrow.context_length = 512;
  Context::Options fixed = narrow;
  fixed.width = exact_width;
  const LayerNeed need = layer_need(parts, {}, 2 * 1024, narrow.kv_type, narrow.batch_size, narrow.max_rows);
  const Placement placed = place(parts, need, all_layers, devices);
  if (placed.devices.empty()) throw Error("no device to check: " + device_problems());
  Model::Options options;
  options.offload.devices = placed.handles();
  options.offload.num_layers = placed.num_layers;
  options.offload.split = placed.shares;
  const auto model = std::make_shared<const Model>(parts, options);
  const auto threads = std::make_shared<ThreadPool>(num_threads);

  DeviceCheck check;
  check.places = placed.text;
  check.num_rows = checked_length - prompt;
  const int size = model->vocabulary().size();
  const std::vector<Token> text = some_text(checked_length, size);
  double seconds = 0.0;
  {
    Context context(model, threads, fixed);
    check.pads = !context.leave_out_padding();
    check.width = context.width();
    const std::vector<float> expected = rows_of(context, text, {check.width});
    for (const Cut& cut : {Cut{1}, Cut{3, 1, check.width, 2}, Cut{check.width + 5}}) {
      check.num_differing = std::max(check.num_differing, num_differing(expected, rows_of(context, text, cut), size));
    }
    seconds = time_pass(context, 0, text, 1, 1, 5);
  }
  Context context(model, threads, narrow);
  check.num_narrow = num_differing(rows_of(context, text, {1}), rows_of(context, text, {4}), size);
  check.cost = seconds / time_pass(context, 0, text, 1, 1, 5);
  return check;
}

}  // namespace specdec
