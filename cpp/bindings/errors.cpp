#include "bindings/register.h"
#include "speculative/error.h"

namespace py = pybind11;

void register_errors(py::module_& m) {
  // Bases first: pybind11 tries the translators registered last before the others.
  const auto& error = py::register_exception<specdec::Error>(m, "Error", PyExc_RuntimeError);
  error.doc() = "Base class of this package's errors; bad arguments are ValueError.";
  const auto& model = py::register_exception<specdec::ModelError>(m, "ModelError", error);
  model.doc() = "A model file or model that cannot be used, or that failed while running.";
  const auto& mismatch = py::register_exception<specdec::VocabularyMismatch>(m, "VocabularyMismatch", model);
  mismatch.doc() = "Draft and target do not share a vocabulary; the message shows the first difference.";
  const auto& full = py::register_exception<specdec::ContextFull>(m, "ContextFull", error);
  full.doc() = "The prompt does not fit into the context.";
  const auto& cancelled = py::register_exception<specdec::Cancelled>(m, "Cancelled", error);
  cancelled.doc() = "The generation was stopped from outside; the generator stays usable.";
}
