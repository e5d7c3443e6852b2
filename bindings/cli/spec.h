// Which spec a run streams: a JSON file as it is, or the quickstart's pipeline over a folder, with the
// command line's changes applied. One thread; failure is wrong use (exit status 2) with a sentence.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bindings/cli/handles.h"

namespace sl::cli {

// What the command line may change in a spec.
struct SpecChanges {
    std::optional<std::uint64_t> epochs;
    std::optional<std::uint64_t> batch;
    std::optional<std::uint64_t> seed;
    std::optional<std::string> profile;
    std::optional<std::string> policy;
};

// source: a folder, or a file with a JSON spec. A relative dataset.path is taken from the current folder and
// made absolute, because the daemon runs elsewhere.
Outcome<nlohmann::json> make_spec(const std::string& source, const SpecChanges& changes);

// The quickstart's spec for a folder: decode, random-resized-crop 224, flip, normalise as for ImageNet;
// float32 NCHW, shuffled, batches of `batch`, the last one kept.
nlohmann::json quickstart_spec(const std::string& folder, std::uint64_t batch);

// A document in one line. Bytes that are no UTF-8 (file names may hold any) become replacement characters.
std::string json_text(const nlohmann::json& document);

}  // namespace sl::cli
