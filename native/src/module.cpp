#include "bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "Whisper with continuous batching on AMX or AVX-512 BF16.";
  stentor::bind_engine(module, nullptr);
}
