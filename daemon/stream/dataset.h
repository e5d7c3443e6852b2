// A dataset as streams see it: which samples an epoch has and in which order, where each lies, its label.
//
// One folder, what is selected of one, or a mix of such parts: made by blocking scans on threads of their
// own. Or items, whose order the client has given: their ids are the order's positions, and they lie nowhere.
// Then constant and safe to read from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/plan/sequence.h"
#include "daemon/plan/spec.h"
#include "daemon/stream/item_order.h"
#include "io/folder_source.h"
#include "io/mount.h"
#include "shm/error.h"

namespace sl {

class Dataset {
  public:
    struct Part {
        FolderSource folder;
        Mount mount;                         // of its root
        std::shared_ptr<const Reach> reach;  // whose scan it is; none: the daemon's own
        std::shared_ptr<const Selection> selection;
        std::uint64_t first_id = 0;        // of the whole folder's ids in the dataset
        std::uint64_t samples = 0;         // in an epoch
        std::vector<std::int64_t> labels;  // in the dataset, by label in the folder
    };

    // All samples of a folder. Blocking: walks the file system, or reads a manifest of it
    // (io/folder_source.h).
    static Result<std::shared_ptr<const Dataset>> scan(const std::string& path,
                                                       const FolderOptions& options = {});
    // What a spec asks for, of its folders as scan() gives them, in their order. kSpec: a subset selects
    // nothing, or what is not there, or a part of a mix would give nothing.
    static Result<std::shared_ptr<const Dataset>> compose(
        const Spec& spec, const std::vector<std::shared_ptr<const Dataset>>& folders);

    // The items of an order; `name` is for people.
    static std::shared_ptr<const Dataset> of_items(const std::string& name,
                                                   std::shared_ptr<const ItemOrder> order);

    // Of the whole dataset, selected or not; ids are below it.
    [[nodiscard]] std::uint64_t size() const;
    // In an epoch.
    [[nodiscard]] std::uint64_t samples() const;
    [[nodiscard]] Sequence sequence(std::uint64_t seed, std::uint64_t epoch, bool shuffle) const;
    // Of what is selected.
    [[nodiscard]] std::uint64_t fingerprint() const;

    // Items have no label.
    [[nodiscard]] std::int64_t label(std::uint64_t id) const {
        const Part& part = part_of(id);
        return part.labels[static_cast<std::size_t>(part.folder.label(id - part.first_id))];
    }
    // Of an item "NAME[its index]".
    void path(std::uint64_t id, std::string& out) const;
    [[nodiscard]] const Mount& mount(std::uint64_t id) const { return part_of(id).mount; }
    // Through which a sample's file must be opened; none: as the daemon opens its own.
    [[nodiscard]] const std::shared_ptr<const Reach>& reach(std::uint64_t id) const {
        return part_of(id).reach;
    }

    [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }  // by label
    // Of a mix; else the folder; of items none.
    [[nodiscard]] std::span<const Part> parts() const { return parts_; }
    [[nodiscard]] bool is_mix() const { return mix_ != nullptr; }
    [[nodiscard]] const ItemOrder* items() const { return items_.get(); }  // null: they are files

  private:
    Dataset() = default;
    void name_classes();
    [[nodiscard]] const Part& part_of(std::uint64_t id) const { return parts_[mix_ ? mix_->part_of(id) : 0]; }

    std::vector<Part> parts_;
    std::vector<std::string> classes_;
    std::shared_ptr<const Mix> mix_;
    std::shared_ptr<const ItemOrder> items_;
    std::string items_name_;
};

// The number, as worker/decode/image.h counts, of the format that a file's name suggests, 0 for none; only a
// hint for predictions.
std::uint32_t format_hint(std::string_view path);

}  // namespace sl
