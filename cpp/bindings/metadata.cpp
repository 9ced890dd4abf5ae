// The metadata of GGUF files as Python values.
#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "gguf/gguf_file.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

struct ToPython {
  py::object operator()(const std::string& text) const { return text_from_bytes(text); }
  py::object operator()(const specdec::GgufArray& array) const {
    py::list list;
    for (const specdec::GgufValue& element : array.elements()) list.append(std::visit(*this, element));
    return list;
  }
  template <class Number>
  py::object operator()(const Number& number) const {
    return py::cast(number);
  }
};

using Metadata = py::typing::Dict<py::str, py::object>;

Metadata read_metadata(const std::string& path) {
  std::vector<specdec::GgufFile> parts;
  {
    const WithoutGil without_gil;
    parts = specdec::GgufFile::read_parts(path);
  }
  Metadata metadata;
  for (const specdec::GgufEntry& entry : parts.front().metadata)
    metadata[text_from_bytes(entry.key)] = std::visit(ToPython(), entry.value);
  return metadata;
}

}  // namespace

void register_metadata(py::module_& m) {
  m.def("read_metadata", &read_metadata, "path"_a,
        "The metadata of a model's first file: int, float, bool, str and lists of these. ModelError.");
}
