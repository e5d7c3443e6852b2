// Parses what only a stream of items has; see spec_items.h. Pure, any thread.
#include "daemon/plan/spec_items.h"

#include <algorithm>
#include <array>

#include "daemon/plan/random.h"

namespace sl {
namespace {

constexpr std::string_view kOpaque = "bytes";
constexpr std::array<std::string_view, 5> kTaken{"sample_id", "valid", "item_bytes", "collated",
                                                 "collated_bytes"};

void read_name(Section& section, const std::vector<RowField>& before, RowField& field, Problem& problem) {
    field.name = section.text("name");
    constexpr std::size_t kMost = sizeof(sl_shm_tensor::name) - 1;
    if (field.name.size() > kMost) {
        section.report("name", field.name, "a name of at most " + std::to_string(kMost) + " bytes");
    }
    if (std::ranges::find(kTaken, field.name) != kTaken.end()) {
        section.report("name", field.name, "a name other than " + join(kTaken) + ", which each batch has");
    }
    if (std::ranges::find(before, field.name, &RowField::name) != before.end()) {
        problem.report(section.path_of("name") + " is \"" + field.name + "\", which another row has too");
    }
}

void read_shape(Section& section, RowField& field) {
    const Json& value = *section.find("shape");
    const bool fits =
        value.is_array() && value.size() <= kMaxRowSides && std::ranges::all_of(value, [](const Json& side) {
            return side.is_number_unsigned() && side.get<std::uint64_t>() >= 1 &&
                   side.get<std::uint64_t>() <= kMaxRowBytes;
        });
    if (fits) {
        field.shape = value.get<std::vector<std::uint64_t>>();
    } else {
        section.report("shape", value,
                       "an array of at most " + std::to_string(kMaxRowSides) + " sides, each 1 to " +
                           std::to_string(kMaxRowBytes));
    }
}

bool is_opaque(const Json& row) {
    if (!row.is_object()) return false;
    const auto dtype = row.find("dtype");
    return dtype != row.end() && *dtype == kOpaque;
}

void read_opaque(const Json& row, const std::string& path, ItemsSpec& items, Problem& problem) {
    static constexpr std::array<std::string_view, 3> kKeys{"name", "dtype", "capacity"};
    Section section(&row, path, kKeys, problem);
    section.require(kKeys);
    RowField field;
    read_name(section, items.rows, field, problem);
    field.shape = {section.whole("capacity", 1, 1, kMaxRowBytes)};
    items.opaque = true;
    items.rows.push_back(std::move(field));
}

void read_row(const Json& row, const std::string& path, ItemsSpec& items, Problem& problem) {
    static constexpr std::array<std::string_view, 3> kKeys{"name", "dtype", "shape"};
    Section section(&row, path, kKeys, problem);
    section.require(kKeys);
    if (problem.error()) return;
    RowField field;
    read_name(section, items.rows, field, problem);
    field.dtype = section.choice("dtype", kRowDtypes);
    read_shape(section, field);
    items.rows.push_back(std::move(field));
}

// Whether the rows fit into kMaxRowBytes together, without leaving 64 bits on the way.
void check_size(const ItemsSpec& items, Problem& problem) {
    std::uint64_t left = kMaxRowBytes;
    for (const RowField& field : items.rows) {
        std::uint64_t most = left / element_bytes(field.dtype);
        for (const std::uint64_t side : field.shape)
            most /= side;
        if (most == 0) {
            return problem.report("rows ask for more than " + std::to_string(kMaxRowBytes) +
                                  " bytes an item, which is the most that is allowed");
        }
        left -= row_bytes(field);
    }
}

}  // namespace

void read_items(const Json& dataset, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 5> kKeys{"kind", "count", "name", "crew", "epoch"};
    static constexpr std::array<std::string_view, 1> kRequired{"count"};
    Section section(&dataset, "dataset", kKeys, problem);
    section.require(kRequired);
    spec.kind = DatasetKind::kItems;
    spec.parts.clear();
    spec.shuffle = false;
    spec.items.count = section.whole("count", 1, 1, kMaxItems);
    spec.items.name = section.text("name");
    spec.items.crew = section.hex_digits("crew");
    spec.items.epoch = section.whole("epoch", 0, 0, kEpochLimit - 1);
}

void read_rows(const Json* value, ItemsSpec& items, Problem& problem) {
    if (value == nullptr) return problem.report("rows is missing");
    if (!value->is_array() || value->empty() || value->size() > kMaxRowFields) {
        return problem.report("rows is " + describe(*value) + ", allowed: an array of 1 to " +
                              std::to_string(kMaxRowFields) + " fields");
    }
    for (std::size_t i = 0; i < value->size() && !problem.error(); ++i) {
        const Json& row = (*value)[i];
        const std::string path = "rows[" + std::to_string(i) + "]";
        if (!is_opaque(row)) {
            read_row(row, path, items, problem);
        } else if (value->size() == 1) {
            read_opaque(row, path, items, problem);
        } else {
            problem.report(path + ".dtype is \"bytes\", which goes with no other row");
        }
    }
    if (!problem.error()) check_size(items, problem);
}

void read_collate(const Json* value, ItemsSpec& items, Problem& problem) {
    if (value == nullptr) return;
    static constexpr std::array<std::string_view, 1> kKeys{"capacity"};
    Section section(value, "collate", kKeys, problem);
    section.require(kKeys);
    items.collate_bytes = section.whole("capacity", 1, 1, kMaxRowBytes);
    if (!items.opaque) problem.report("collate goes with one row of dtype \"bytes\" only");
}

void refuse_for_items(const Json& document, Problem& problem) {
    static constexpr std::array<std::string_view, 5> kOfPictures{"pipeline", "output", "profile", "explain",
                                                                 "shard"};
    for (const std::string_view key : kOfPictures) {
        if (!document.contains(key)) continue;
        problem.report(std::string(key) +
                       " does not go with dataset.kind \"items\": what an item is, and whose, is the "
                       "client's to say");
    }
}

}  // namespace sl
