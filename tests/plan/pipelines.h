// Pipelines for the tests of draws, made the way the daemon makes them: from JSON. Shared by the two
// programs.
#pragma once

#include <string>

#include "daemon/plan/spec.h"
#include "tests/cmocka_cpp.h"

namespace sl {

inline Pipeline pipeline_of(const std::string& ops) {
    const Result<Spec> spec = parse_spec(R"({"dataset": {"path": "p"}, "pipeline": [)" + ops + "]}");
    if (!spec) fail_msg("%s", spec.error().message.c_str());
    return spec->pipeline;
}

inline const std::string kCrop224 = R"({"op": "random_resized_crop", "size": 224})";
inline const std::string kFlip = R"({"op": "random_horizontal_flip"})";

}  // namespace sl
