// Building the spec of a run; see spec.h.
#include "bindings/cli/spec.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace sl::cli {

namespace {

constexpr std::uint64_t kQuickstartBatch = 64;

std::unexpected<Failure> wrong(std::string message) {
    return std::unexpected(Failure{kExitUsage, std::move(message)});
}

// Files in the folder, counted up to `enough`: a small folder gets a small batch, so that no memory is asked
// for rows that cannot exist. Unreadable folders are the daemon's to report.
std::uint64_t count_files(const std::string& folder, std::uint64_t enough) {
    std::error_code error;
    auto options =
        fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
    fs::recursive_directory_iterator walk(folder, options, error);
    std::uint64_t count = 0;
    for (; !error && walk != fs::recursive_directory_iterator() && count < enough; walk.increment(error)) {
        if (walk->is_regular_file(error)) ++count;
    }
    return count;
}

Outcome<nlohmann::json> read_spec(const std::string& path) {
    std::ifstream file(path);
    if (!file) return wrong("cannot read the spec " + path);
    nlohmann::json spec = nlohmann::json::parse(file, nullptr, false);
    if (spec.is_discarded()) return wrong(path + " is neither a folder nor a JSON spec");
    if (!spec.is_object()) return wrong(path + " holds no JSON object");
    return spec;
}

// spec[section][key] = value, unless the section is there and no object: the daemon names that mistake.
template <class T>
void change(nlohmann::json& spec, const char* section, const char* key, const std::optional<T>& value) {
    if (!value) return;
    nlohmann::json& part = spec[section];
    if (part.is_null() || part.is_object()) part[key] = *value;
}

// Of a folder, and of each part of a mix.
void make_paths_absolute(nlohmann::json& dataset) {
    if (!dataset.is_object()) return;
    if (auto parts = dataset.find("parts"); parts != dataset.end() && parts->is_array()) {
        for (nlohmann::json& part : *parts)
            make_paths_absolute(part);
    }
    auto path = dataset.find("path");
    if (path == dataset.end() || !path->is_string()) return;
    std::error_code error;
    fs::path absolute = fs::absolute(path->get<std::string>(), error);
    if (!error) *path = absolute.lexically_normal().string();
}

}  // namespace

nlohmann::json quickstart_spec(const std::string& folder, std::uint64_t batch) {
    using nlohmann::json;
    return json{
        {"dataset", {{"kind", "image_folder"}, {"path", folder}}},
        {"pipeline",
         json::array(
             {{{"op", "decode"}, {"channels", 3}},
              {{"op", "random_resized_crop"}, {"size", {224, 224}}},
              {{"op", "random_horizontal_flip"}, {"p", 0.5}},
              {{"op", "normalize"}, {"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}})},
        {"output", {{"dtype", "float32"}, {"layout", "NCHW"}}},
        {"batch", {{"size", batch}, {"last", "keep"}}},
        {"order", {{"shuffle", true}}}};
}

Outcome<nlohmann::json> make_spec(const std::string& source, const SpecChanges& changes) {
    std::error_code error;
    nlohmann::json spec;
    if (fs::is_directory(source, error)) {
        std::uint64_t wanted = changes.batch.value_or(kQuickstartBatch);
        spec = quickstart_spec(source, std::max<std::uint64_t>(1, count_files(source, wanted)));
    } else if (!fs::exists(source, error)) {
        return wrong("there is no folder or spec " + source);
    } else {
        Outcome<nlohmann::json> read = read_spec(source);
        if (!read) return read;
        spec = std::move(*read);
        change(spec, "batch", "size", changes.batch);
    }
    if (changes.epochs) spec["epochs"] = *changes.epochs;
    if (changes.profile) spec["profile"] = *changes.profile;
    change(spec, "order", "seed", changes.seed);
    change(spec, "order", "policy", changes.policy);
    if (auto dataset = spec.find("dataset"); dataset != spec.end()) make_paths_absolute(*dataset);
    return spec;
}

std::string json_text(const nlohmann::json& document) {
    return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sl::cli
