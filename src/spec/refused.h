// Keys of config.json that change the mathematics in ways that no layer here computes.
#pragma once

#include "spec/config_reader.h"

namespace zt::spec {

// Reports every such key of `config` whose value is not the one that means "off".
void report_refused_features(const nlohmann::json& config, Problems& problems);

}  // namespace zt::spec
