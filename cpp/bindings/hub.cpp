// Names of models on the Hugging Face hub. Python does the downloads (specdec_native/_hub.py).
#include <pybind11/stl.h>

#include "bindings/register.h"
#include "hub/companions.h"
#include "hub/model_name.h"

namespace py = pybind11;
using namespace py::literals;

void register_hub(py::module_& m) {
  m.def(
      "hub_repository", [](const std::string& name) { return specdec::parse_hub_name(name).repository; }, "name"_a,
      "The OWNER/NAME of hf:OWNER/NAME, hf:OWNER/NAME:QUANT or hf:OWNER/NAME/FILE.gguf. ValueError.");
  m.def(
      "hub_model_files",
      [](const std::string& name, const std::vector<std::string>& paths) {
        return specdec::choose_model_files(specdec::parse_hub_name(name), paths);
      },
      "name"_a, "paths"_a,
      "The files of the named model among a repository's paths; all parts of a split model. ModelError.");
  m.def("hub_projectors", &specdec::projectors_among, "paths"_a,
        "The projectors among a repository's paths, the best first.");
  m.def(
      "companion_of",
      [](const std::string& target) {
        const std::vector<specdec::HubName> names = specdec::companions_of(target);
        return names.empty() ? std::nullopt : std::optional<std::string>(names.front().text());
      },
      "target"_a, "The name of the best draft on the hub for a target's file, or None. ModelError.");
}
