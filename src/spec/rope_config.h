// The rotary part of config.json, in each of the spellings in use.
#pragma once

#include "spec/config_reader.h"
#include "spec/model.h"

namespace zt::spec {

// Reads rope_theta, rope_scaling (transformers 4; keys "type" or "rope_type") and rope_parameters
// (transformers 5, rope_theta inside). Two places that disagree are a problem.
Rope read_rope(ConfigReader& reader, int max_positions, int head_size, Problems& problems);

}  // namespace zt::spec
