// Files that get their names when they are complete, for programs in Python.
#include "platform/output_file.h"

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "bindings/register.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

// As a context manager: after an exception, nothing is published.
class PythonOutputFile {
 public:
  PythonOutputFile(const py::object& path, bool overwrites, std::string remedy)
      : output_(std::in_place, path_bytes(path), overwrites, std::move(remedy)) {}

  py::object partial() const {
    if (!output_) throw specdec::Error("the file is complete");
    const std::string path = output_->partial().string();
    return py::module_::import("os").attr("fsdecode")(py::bytes(path));
  }
  void end(const py::object& exception, const py::object&, const py::object&) {
    if (exception.is_none() && output_) output_->publish();
    output_.reset();
  }

  static std::string path_bytes(const py::object& path) {
    return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
  }

 private:
  std::optional<specdec::OutputFile> output_;
};

}  // namespace

void register_output_file(py::module_& m) {
  m.def(
      "check_output",
      [](const py::object& path, bool overwrites, const std::string& remedy) {
        specdec::check_output(PythonOutputFile::path_bytes(path), overwrites, remedy);
      },
      "path"_a, "overwrites"_a, "remedy"_a,
      "The rule for every file that is written: Error if it exists already (unless overwrites), is not a regular\n"
      "file, or if its folder does not exist.");
  py::class_<PythonOutputFile>(m, "OutputFile",
                               "A file that gets its name when the `with` block ends without an exception. Inside it, "
                               "write the file `partial`.")
      .def(py::init<const py::object&, bool, std::string>(), "path"_a, "overwrites"_a, "remedy"_a = "")
      .def_property_readonly("partial", &PythonOutputFile::partial)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", &PythonOutputFile::end, "type"_a, "value"_a, "traceback"_a);
}
