// What is text in a folder, for specdec-train.
#include "engine/text_folder.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <optional>
#include <string>

#include "bindings/register.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

std::string path_bytes(const py::object& path) {
  return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
}

using Paths = py::typing::List<py::str>;

}  // namespace

void register_text_folder(py::module_& m) {
  m.def(
      "files_below",
      [](const py::object& folder) {
        Paths paths;
        for (const std::string& path : specdec::files_below(path_bytes(folder)))
          paths.append(py::module_::import("os").attr("fsdecode")(py::bytes(path)));
        return paths;
      },
      "folder"_a, "The files below a folder in the order of their paths, without hidden ones and links. Error.");
  m.def(
      "text_of_file",
      [](const py::object& path) -> std::optional<std::string> { return specdec::text_of_file(path_bytes(path)); },
      "path"_a, "The text of a file, or the first MiB of it; None: it is binary. Error.");
}
