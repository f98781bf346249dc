// The engine's face in Python, shared by the extension module and by the tests' build of it.
#pragma once

#include <nanobind/nanobind.h>

#include "micro.h"

namespace stentor {

// Binds Engine, Event, EncodedAudio and the questions about the processor. `emulated` is a further backend of
// that name, or null.
void bind_engine(nanobind::module_& module, const MicroKernels* emulated);

}  // namespace stentor
