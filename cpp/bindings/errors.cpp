// Python's exception classes, and which C++ exception becomes which of them.
#include <exception>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "bindings/register.h"

namespace py = pybind11;

namespace {

template <class Error>
py::object add(py::module_& m, const char* name, const py::handle& base, const char* doc) {
  py::exception<Error> type(m, name, base);
  type.doc() = doc;
  return std::move(type);
}

// These live as long as the interpreter.
struct Types {
  py::object error, model, mismatch, full, queue_full, cancelled;
};
const Types* types = nullptr;

// Messages may contain names from damaged files and paths, which can be any bytes.
py::object made(const py::handle& type, const std::exception& e, const char* remedy = "") {
  return type(text_from_bytes(std::string(e.what()) + remedy));
}

// The Python exception for one of our errors or a bad argument; null for any other exception.
py::object known_exception_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const specdec::VocabularyMismatch& e) {
    return made(types->mismatch, e);
  } catch (const specdec::ModelError& e) {
    return made(types->model, e);
  } catch (const specdec::ContextFull& e) {
    return made(types->full, e, "; shorten the prompt or ask for a longer context (n_ctx)");
  } catch (const specdec::QueueFull& e) {
    return made(types->queue_full, e);
  } catch (const specdec::Cancelled& e) {
    return made(types->cancelled, e);
  } catch (const specdec::Error& e) {
    return made(types->error, e);
  } catch (const std::invalid_argument& e) {
    return made(PyExc_ValueError, e);
  } catch (...) {
    return {};
  }
}

}  // namespace

py::str text_from_bytes(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

py::object exception_of(const std::exception_ptr& failure) {
  if (py::object known = known_exception_of(failure)) return known;
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc& e) {
    return made(PyExc_MemoryError, e);
  } catch (const std::exception& e) {
    return made(PyExc_RuntimeError, e);
  } catch (...) {
    return py::handle(PyExc_RuntimeError)("an unknown C++ exception");
  }
}

void register_errors(py::module_& m) {
  using namespace specdec;
  const py::object error =
      add<Error>(m, "Error", PyExc_RuntimeError,
                 "Base class of this package's errors. Bad arguments raise ValueError or TypeError.");
  const py::object model = add<ModelError>(m, "ModelError", error,
                                           "A model file that cannot be used, or a model that failed while running.");
  types = new Types{
      error,
      model,
      add<VocabularyMismatch>(m, "VocabularyMismatch", model,
                              "Draft and target do not share a vocabulary; the message shows the first difference."),
      add<ContextFull>(m, "ContextFull", error, "The prompt does not fit into the context."),
      add<QueueFull>(m, "QueueFull", error, "The queue is full: max_queue_size requests are waiting already."),
      add<Cancelled>(m, "Cancelled", error, "The generation was cancelled; the Generator stays usable.")};
  py::register_exception_translator([](std::exception_ptr failure) {
    const py::object exception = known_exception_of(failure);
    if (exception) PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
    else std::rethrow_exception(failure);
  });
}
