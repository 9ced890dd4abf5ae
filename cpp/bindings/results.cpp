#include "bindings/results.h"

namespace py = pybind11;

py::object piece_to_python(const std::optional<specdec::Piece>& piece) {
  if (!piece) return py::none();
  const py::object reason = piece->finish_reason ? py::object(py::str(specdec::name(*piece->finish_reason))) : py::object(py::none());
  const py::object source = piece->from_draft() ? py::object(py::str(specdec::name(piece->origin))) : py::object(py::none());
  return py::make_tuple(piece->token, py::str(piece->text), source, piece->logprob, reason);
}

StatsDict stats_to_python(const specdec::Stats& stats) {
  StatsDict dict;
  specdec::for_each_field(stats, [&](const char* name, auto value) { dict[name] = value; });
  return dict;
}
