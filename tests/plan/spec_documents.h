// Specs for the tests: lawful documents to change, and what is expected of the answer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/plan/spec.h"
#include "tests/cmocka_cpp.h"

namespace sl {

using Json = nlohmann::ordered_json;

// The document of the interface's section 2.
inline Json full() {
    return Json::parse(R"({
      "dataset":  {"kind": "image_folder", "path": "/data/train"},
      "pipeline": [
        {"op": "decode", "channels": 3},
        {"op": "random_resized_crop", "size": [224, 224], "scale": [0.08, 1.0], "ratio": [0.75, 1.3333333333]},
        {"op": "random_horizontal_flip", "p": 0.5},
        {"op": "normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
      ],
      "output":  {"dtype": "float32", "layout": "NCHW"},
      "batch":   {"size": 64, "last": "drop"},
      "order":   {"shuffle": true, "seed": 0, "policy": "strict"},
      "shard":   {"rank": 0, "world_size": 1, "uneven": "pad"},
      "errors":  {"policy": "refill", "max_failures": 100, "max_rate": 0.01},
      "epochs":  1,
      "profile": "pillow",
      "share":   "auto"
    })");
}

inline Json minimal() {
    return Json{{"dataset", {{"path", "/data/train"}}}};
}

inline Json with_ops(const char* ops) {
    Json document = minimal();
    document["pipeline"] = Json::parse(ops);
    return document;
}

inline Spec accepted(const Json& document) {
    const auto spec = parse_spec(document.dump());
    if (!spec) fail_msg("%s", spec.error().message.c_str());
    return *spec;
}

inline void assert_refused(std::string_view text, const char* message, Status status = Status::kSpec) {
    const auto spec = parse_spec(text);
    if (spec) fail_msg("accepted, expected: %s", message);
    assert_string_equal(spec.error().message.c_str(), message);
    assert_true(spec.error().status == status);
}

inline void assert_refused(const Json& document, const char* message, Status status = Status::kSpec) {
    assert_refused(std::string_view(document.dump()), message, status);
}

// A whole document with the value at a JSON pointer replaced.
inline Json changed(const char* pointer, const char* value) {
    Json document = full();
    document[Json::json_pointer(pointer)] = Json::parse(value);
    return document;
}

}  // namespace sl
