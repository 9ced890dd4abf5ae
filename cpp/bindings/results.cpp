#include "bindings/results.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <vector>

namespace py = pybind11;

namespace {

// ((token, logprob), ...)
py::tuple pairs(const specdec::sampling::TokenLogprob* tokens, std::size_t count) {
  py::tuple pairs(count);
  for (std::size_t i = 0; i < count; ++i) pairs[i] = py::make_tuple(tokens[i].token, tokens[i].logprob);
  return pairs;
}

}  // namespace

py::object piece_to_python(const std::optional<specdec::Piece>& piece) {
  if (!piece) return py::none();
  const py::object reason =
      piece->finish_reason ? py::object(py::str(specdec::name(*piece->finish_reason))) : py::object(py::none());
  const py::object source =
      piece->from_draft() ? py::object(py::str(specdec::name(piece->origin))) : py::object(py::none());
  const std::vector<specdec::sampling::TokenLogprob>& top = piece->top_logprobs;
  return py::make_tuple(piece->token, py::str(piece->text), source, piece->logprob, reason,
                        pairs(top.data(), top.size()));
}

py::object rows_to_python(const std::vector<specdec::Token>& tokens, std::size_t num_layers,
                          const specdec::LayerRows& rows) {
  using Shape = std::vector<py::ssize_t>;
  const auto count = static_cast<py::ssize_t>(tokens.size());
  const py::array_t<std::int32_t> ids(count, tokens.data());
  const py::array_t<float> values(Shape{count, static_cast<py::ssize_t>(num_layers), rows.width}, rows.rows.data());
  py::array_t<std::int32_t> top_tokens(Shape{count, rows.num_top});
  py::array_t<float> top_logprobs(Shape{count, rows.num_top});
  std::int32_t* token = top_tokens.mutable_data();
  float* logprob = top_logprobs.mutable_data();
  for (const specdec::sampling::TokenLogprob& one : rows.top) {
    *token++ = one.token;
    *logprob++ = static_cast<float>(one.logprob);
  }
  return py::make_tuple(ids, values, top_tokens, top_logprobs);
}

py::object score_to_python(const specdec::Score& score) {
  py::list top;
  const std::size_t count = score.logprobs.size(), each = count == 0 ? 0 : score.top_logprobs.size() / count;
  for (std::size_t i = 0; i < count; ++i) top.append(pairs(score.top_logprobs.data() + i * each, each));
  return py::make_tuple(score.tokens, score.logprobs, score.most_likely, top);
}

StatsDict stats_to_python(const specdec::Stats& stats, const std::string& drafting) {
  StatsDict dict;
  specdec::for_each_field(stats, [&](const char* name, auto value) { dict[name] = value; });
  dict["drafting"] = drafting;
  return dict;
}
