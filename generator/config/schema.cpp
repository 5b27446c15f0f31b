#include "generator/config/schema.hpp"

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"

namespace kiln {

std::string config_schema() {
  Json properties{{"$schema", {{"type", "string"}, {"description", "address of this file; ignored"}}}};
  Json required = Json::array();
  for (const KeySpec& key : config_keys()) {
    Json property{{"description", key.doc}};
    if (key.targets != kAllTargets) {
      property["description"] = std::string(key.doc) + " (" + target_names(key.targets) + ")";
    }
    property.update(key.schema);
    properties[std::string(key.name)] = std::move(property);
    if (key.required) required.push_back(key.name);
  }
  const Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                    {"title", "kiln config"},
                    {"description", "One attention kernel. docs/config.md explains every key."},
                    {"type", "object"},
                    {"properties", std::move(properties)},
                    {"required", std::move(required)},
                    {"additionalProperties", false}};
  return write_json(schema, 2) + "\n";
}

}  // namespace kiln
