// The JSON Schema of configs, written from the key table. configs/kiln-config.schema.json is this text; a
// test holds the two together.
#pragma once

#include <string>

namespace kiln {

/// JSON Schema (draft 2020-12) of one config. It describes single keys; rules over several keys are V1..V32.
std::string config_schema();

}  // namespace kiln
