// One function per part of the module; module.cpp calls them in order.
#pragma once

#include <pybind11/pybind11.h>

void register_errors(pybind11::module_& m);
void register_generator(pybind11::module_& m);
void register_evaluate(pybind11::module_& m);
void register_sampling(pybind11::module_& m);
void register_mxfp6(pybind11::module_& m);
