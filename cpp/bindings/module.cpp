// The extension module specdec_native._core: its parts, registered one after another.
#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "platform/console.h"

// Python marks standard streams that were closed when it started with None. Files that it has opened since may have
// their descriptors, so nothing is written to these; descriptors that are still free must not be used for our own
// files.
static void spare_closed_streams() {
  using specdec::StandardStream;
  const pybind11::module_ sys = pybind11::module_::import("sys");
  if (sys.attr("__stdout__").is_none()) specdec::mute(StandardStream::output);
  if (sys.attr("__stderr__").is_none()) specdec::mute(StandardStream::error);
  specdec::open_standard_streams();
}

PYBIND11_MODULE(_core, m) {
  m.doc() = "The native engine of specdec_native; use it through the package.";
  m.attr("__version__") = SPECDEC_VERSION;
  spare_closed_streams();
  if (const pybind11::module_ os = pybind11::module_::import("os"); pybind11::hasattr(os, "register_at_fork")) {
    os.attr("register_at_fork")(pybind11::arg("after_in_child") = pybind11::cpp_function(forget_other_threads));
  }
  register_errors(m);
  register_log(m);
  register_chat_template(m);
  register_metadata(m);
  register_hub(m);
  register_text_folder(m);
  register_output_file(m);
  register_generator(m);
  register_evaluate(m);

  pybind11::module_ sampling =
      m.def_submodule("sampling", "Probability on numpy arrays: transforms, verification, residual.");
  register_sampling(sampling);
  pybind11::module_ mxfp6 = m.def_submodule("mxfp6", "The 6-bit block-scaled weight format on numpy arrays.");
  register_mxfp6(mxfp6);
}
