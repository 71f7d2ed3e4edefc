// What this machine's calibration says a step will take.
#pragma once

#include <optional>

#include "plan/step_time.h"

namespace zt::train {

// Nothing where this machine isn't calibrated, or not for so many ranks or such numbers: a run doesn't need to know.
std::optional<plan::StepTime> planned_time(const spec::ModelSpec& model, const plan::StepShape& shape,
                                           const plan::StepPlan& plan);
// "planned: 0.52 s a step, 7,900 tokens/s, as this machine was measured 3 hours ago".
std::string planned_time_text(const plan::StepTime& time);

}  // namespace zt::train
