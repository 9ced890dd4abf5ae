// One function per part of the module; module.cpp calls them in order.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

// Decodes UTF-8, with replacement characters for invalid bytes.
pybind11::str text_from_bytes(const std::string& text);

// The Python exception for any C++ exception: our class for one of our errors, ValueError for a bad argument,
// MemoryError, and RuntimeError with the message for any other exception.
pybind11::object exception_of(const std::exception_ptr& failure);

void register_errors(pybind11::module_& m);
void register_log(pybind11::module_& m);
void register_chat_template(pybind11::module_& m);
void register_metadata(pybind11::module_& m);
void register_hub(pybind11::module_& m);
void register_text_folder(pybind11::module_& m);
void register_output_file(pybind11::module_& m);
void register_generator(pybind11::module_& m);
void register_evaluate(pybind11::module_& m);
void register_sampling(pybind11::module_& m);
void register_mxfp6(pybind11::module_& m);
