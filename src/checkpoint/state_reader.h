// The state of a run as part of a larger file whose faults are collected.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/state.h"
#include "exchange/words.h"

namespace zt::checkpoint {

RunState read_state(const nlohmann::json& object, const std::string& where, exchange::Faults& faults);

}  // namespace zt::checkpoint
