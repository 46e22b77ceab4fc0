// Config values in and out of a schema's fields: YAML text, "key=value" of the command line, and back.
//
// What does not fit the schema is refused with an Error that names the key's path, what was found, what
// was expected and the place (file and line, or the command line). Used by run_config.
#pragma once

#include <string>
#include <string_view>

#include "tessera/train/config_schema.h"

namespace tessera {

// Fills the fields from YAML text; `file` is its name in messages. Keys may be nested or dotted
// ("train.steps: 10"); a key that is absent keeps its value.
void load_yaml(const ConfigSchema& schema, std::string_view text, const std::string& file);

// One "key.sub=value" of the command line. A list is written "a,b,c", or "[a, b, c]" as in YAML.
void apply_override(const ConfigSchema& schema, const std::string& assignment);

// Every key with its current value; load_yaml of it gives the same struct.
std::string to_yaml(const ConfigSchema& schema);

}  // namespace tessera
