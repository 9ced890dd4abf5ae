#include "bindings/results.h"

namespace py = pybind11;

py::object piece_to_python(const std::optional<specdec::Piece>& piece) {
  if (!piece) return py::none();
  const py::object reason = piece->finish_reason ? py::object(py::str(specdec::name(*piece->finish_reason))) : py::object(py::none());
  const py::object source = piece->from_draft() ? py::object(py::str(specdec::name(piece->origin))) : py::object(py::none());
  py::tuple top(piece->top_logprobs.size());
  for (std::size_t i = 0; i < top.size(); ++i) top[i] = py::make_tuple(piece->top_logprobs[i].token, piece->top_logprobs[i].logprob);
  return py::make_tuple(piece->token, py::str(piece->text), source, piece->logprob, reason, top);
}

StatsDict stats_to_python(const specdec::Stats& stats) {
  StatsDict dict;
  specdec::for_each_field(stats, [&](const char* name, auto value) { dict[name] = value; });
  return dict;
}
