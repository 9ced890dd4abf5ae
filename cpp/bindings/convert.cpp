#include "bindings/convert.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "base/index.h"
#include "base/suggestion.h"
#include "bindings/register.h"
#include "engine/draft_source.h"

namespace py = pybind11;
namespace option = specdec::option;

namespace {

using option::Value;

std::string shown(py::handle object) {
  std::string text =
      py::cast<std::string>(py::repr(object).attr("encode")("utf-8", "backslashreplace").attr("decode")());
  constexpr std::size_t most = 80;
  if (text.size() > most) text = text_from_bytes(text.substr(0, most)).cast<std::string>();
  return text;
}

[[noreturn]] void throw_wrong_type(const std::string& name, py::handle object, const std::string& requirement) {
  throw py::type_error(name + " is " + shown(object) + "; it must be " + requirement);
}

bool is_a(py::handle object, const char* abstract_class) {
  // Kept forever: a __del__ that runs while Python ends cannot import anything.
  static auto* const classes = new std::map<std::string, py::object>;
  py::object& type = (*classes)[abstract_class];
  if (!type) type = py::module_::import("collections.abc").attr(abstract_class);
  return py::isinstance(object, type);
}

// Any whole number, including numpy's; nullopt for other objects.
std::optional<py::int_> whole_from(py::handle object) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (index) return py::reinterpret_borrow<py::int_>(index);
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw py::error_already_set();
  PyErr_Clear();
  return std::nullopt;
}

// Converts to a number type of the engine; a number that does not fit is not valid for any option.
template <class Number>
Number fitted(const std::string& name, const py::int_& whole, const std::string& requirement) {
  try {
    return py::cast<Number>(whole);
  } catch (const py::cast_error&) {
    throw specdec::WrongValue(name, py::cast<std::string>(py::str(whole)), requirement);
  }
}

std::optional<double> number_from(py::handle object) {
  if (py::isinstance<py::str>(object) || py::isinstance<py::bytes>(object) || PyByteArray_Check(object.ptr()))
    return std::nullopt;
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Float(object.ptr()));
  if (number) return PyFloat_AS_DOUBLE(number.ptr());
  for (PyObject* type : {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError}) {
    if (PyErr_ExceptionMatches(type) == 0) continue;
    PyErr_Clear();
    return std::nullopt;
  }
  throw py::error_already_set();
}

class Reader {
 public:
  Reader(const option::Description& option, py::handle object) : option_(option), object_(object) {}

  std::optional<Value> operator()(const option::Flag&) const { return truth(); }
  std::optional<Value> operator()(const option::Whole&) const { return whole<std::int64_t>(object_); }
  std::optional<Value> operator()(const option::Number&) const {
    const std::optional<double> number = number_from(object_);
    return number ? std::optional<Value>(*number) : std::nullopt;
  }
  std::optional<Value> operator()(const option::Seed&) const { return whole<std::uint64_t>(object_); }
  std::optional<Value> operator()(const option::DraftTokens&) const { return whole_or_word(); }
  std::optional<Value> operator()(const option::Layers&) const { return whole_or_word(); }
  std::optional<Value> operator()(const option::Choice&) const { return string(); }
  std::optional<Value> operator()(const option::String&) const { return string(); }
  // A JSON string, a mapping, or a pydantic class or TypeAdapter.
  std::optional<Value> operator()(const option::Schema&) const {
    if (py::isinstance<py::str>(object_)) return string();
    py::object schema = py::reinterpret_borrow<py::object>(object_);
    for (const char* method : {"model_json_schema", "json_schema"}) {
      if (py::hasattr(schema, method)) schema = schema.attr(method)();
    }
    if (PyType_Check(schema.ptr()))
      throw_wrong_type(option_.name, object_, option_.requirement() + ": pydantic.TypeAdapter makes one of a class");
    if (!is_a(schema, "Mapping")) return std::nullopt;
    return json(schema);
  }
  std::optional<Value> operator()(const option::Object&) const {
    if (py::isinstance<py::str>(object_)) return string();
    return is_a(object_, "Mapping") ? std::optional<Value>(json(py::reinterpret_borrow<py::object>(object_)))
                                    : std::nullopt;
  }
  std::optional<Value> operator()(const option::Path&) const { return path(); }
  // A path object is always a file, also if it is named like another source.
  std::optional<Value> operator()(const option::Draft&) const {
    return py::isinstance<py::str>(object_) ? string() : Value(specdec::draft_file(path()));
  }
  std::optional<Value> operator()(const option::Texts&) const { return strings(); }
  std::optional<Value> operator()(const option::Addresses&) const { return strings(); }
  std::optional<Value> operator()(const option::Tokens&) const {
    if (py::isinstance<py::str>(object_)) return std::nullopt;
    return tokens_from(option_.name, object_);
  }
  std::optional<Value> operator()(const option::Biases&) const {
    specdec::sampling::LogitBias biases;
    if (!is_a(object_, "Mapping")) return std::nullopt;
    for (const py::handle item : object_.attr("items")()) {
      const auto [token, bias] = py::cast<std::pair<py::object, py::object>>(item);
      biases.emplace_back(token_of_bias(token), bias_of(token, bias));
    }
    return biases;
  }

 private:
  static std::string json(const py::object& mapping) {
    return py::cast<std::string>(py::module_::import("json").attr("dumps")(py::dict(mapping)));
  }
  bool truth() const {
    const int truth = PyObject_IsTrue(object_.ptr());
    if (truth < 0) throw py::error_already_set();
    return truth == 1;
  }
  template <class Number>
  std::optional<Value> whole(py::handle object) const {
    const std::optional<py::int_> number = whole_from(object);
    return number ? std::optional<Value>(fitted<Number>(option_.name, *number, option_.requirement())) : std::nullopt;
  }
  std::optional<Value> whole_or_word() const {
    return py::isinstance<py::str>(object_) ? string() : whole<std::int64_t>(object_);
  }
  std::string string() const { return string_from(option_.name, object_); }
  std::string path() const {
    const auto path = py::reinterpret_steal<py::object>(PyOS_FSPath(object_.ptr()));
    if (!path) throw py::error_already_set();
    if (py::isinstance<py::bytes>(path)) return path.cast<std::string>();
    // Names that are not UTF-8 have surrogates in Python.
    const auto bytes = py::reinterpret_steal<py::object>(PyUnicode_EncodeFSDefault(path.ptr()));
    if (!bytes) throw py::error_already_set();
    return bytes.cast<std::string>();
  }
  std::optional<Value> strings() const {
    if (py::isinstance<py::str>(object_)) return std::vector<std::string>{string()};
    if (!is_a(object_, "Iterable")) return std::nullopt;
    std::vector<std::string> strings;
    for (const py::handle one : py::reinterpret_borrow<py::iterable>(object_))
      strings.push_back(string_from(option_.name, one));
    return strings;
  }
  static specdec::Token token_of_bias(py::handle object) {
    const char* const name = "a token of logit_bias";
    const std::optional<py::int_> number = whole_from(object);
    if (!number) throw_wrong_type(name, object, "a whole number");
    return fitted<specdec::Token>(name, *number,
                                  specdec::whole_numbers(0, std::numeric_limits<specdec::Token>::max()).text());
  }
  double bias_of(py::handle token, py::handle object) const {
    const std::optional<double> bias = number_from(object);
    if (!bias) throw_wrong_type(option_.name + "[" + shown(token) + "]", object, "a number");
    return *bias;
  }

  const option::Description& option_;
  const py::handle object_;
};

struct TypeName {
  const char* operator()(const option::Flag&) const { return "flag"; }
  const char* operator()(const option::Whole&) const { return "whole"; }
  const char* operator()(const option::Number&) const { return "number"; }
  const char* operator()(const option::Seed&) const { return "seed"; }
  const char* operator()(const option::DraftTokens&) const { return "draft_tokens"; }
  const char* operator()(const option::Layers&) const { return "layers"; }
  const char* operator()(const option::Choice&) const { return "choice"; }
  const char* operator()(const option::String&) const { return "text"; }
  const char* operator()(const option::Schema&) const { return "schema"; }
  const char* operator()(const option::Object&) const { return "object"; }
  const char* operator()(const option::Path&) const { return "path"; }
  const char* operator()(const option::Draft&) const { return "draft"; }
  const char* operator()(const option::Texts&) const { return "texts"; }
  const char* operator()(const option::Addresses&) const { return "addresses"; }
  const char* operator()(const option::Biases&) const { return "biases"; }
  const char* operator()(const option::Tokens&) const { return "tokens"; }
};

struct ValueToPython {
  py::object operator()(std::monostate) const { return py::none(); }
  py::object operator()(const std::vector<std::string>& values) const {
    py::list list;
    for (const std::string& value : values) list.append(value);
    return list;
  }
  py::object operator()(const specdec::sampling::LogitBias& biases) const {
    py::dict dict;
    for (const auto& [token, bias] : biases) dict[py::int_(token)] = bias;
    return dict;
  }
  template <class Other>
  py::object operator()(const Other& value) const {
    return py::cast(value);
  }
};

}  // namespace

std::string string_from(const std::string& name, py::handle object) {
  if (!py::isinstance<py::str>(object)) throw_wrong_type(name, object, "a str");
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text != nullptr) return std::string(text, specdec::idx(size));
  const py::error_already_set error;
  if (!error.matches(PyExc_UnicodeEncodeError)) throw error;
  throw py::value_error(name + " has a lone surrogate at " +
                        py::cast<std::string>(py::str(error.value().attr("start"))) +
                        ", which cannot be encoded as UTF-8");
}

std::vector<specdec::Token> tokens_from(const std::string& name, py::handle object) {
  if (PyBytes_Check(object.ptr()) || PyByteArray_Check(object.ptr()) || PyMemoryView_Check(object.ptr())) {
    throw py::type_error(name + " is " + Py_TYPE(object.ptr())->tp_name + "; it must be a str or token ids: decode it");
  }
  if (!is_a(object, "Iterable")) throw_wrong_type(name, object, "a str or token ids");
  std::vector<specdec::Token> tokens;
  for (const py::handle one : py::reinterpret_borrow<py::iterable>(object)) {
    const std::string element = name + "[" + std::to_string(tokens.size()) + "]";
    const std::optional<py::int_> number = whole_from(one);
    const bool are_texts = name == "prompt" && py::isinstance<py::str>(one);
    if (!number)
      throw_wrong_type(element, one, are_texts ? "a token id (generate_many takes several prompts)" : "a whole number");
    tokens.push_back(fitted<specdec::Token>(element, *number, "a token id"));
  }
  return tokens;
}

Value value_from(const option::Description& option, py::handle object) {
  const std::optional<Value> value = std::visit(Reader(option, object), option.type);
  if (!value) throw_wrong_type(option.name, object, option.requirement());
  option.check(*value);
  return *value;
}

void throw_unknown_option(const std::string& name, std::vector<std::string> known) {
  std::sort(known.begin(), known.end());
  std::string names;
  for (const std::string& other : known) names += (names.empty() ? "" : ", ") + other;
  throw py::type_error("unknown option '" + name + "'" + specdec::suggestion(name, known) + "; options are " + names);
}

py::dict described(const option::Description& option, const Value& value) {
  py::dict row;
  row["type"] = std::visit(TypeName(), option.type);
  row["requirement"] = option.requirement();
  row["default"] = std::visit(ValueToPython(), value);
  row["optional"] = option.is_optional;
  if (const auto* choice = std::get_if<option::Choice>(&option.type)) row["choices"] = ValueToPython()(choice->names);
  row["flags"] = ValueToPython()(option.flags.names);
  row["help"] = option.flags.help;
  return row;
}
