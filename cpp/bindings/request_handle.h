// A submitted request for Python.
#pragma once

#include <pybind11/pybind11.h>

void register_request_handle(pybind11::module_& m);
