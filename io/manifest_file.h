// Manifests as files of a cache folder: one per dataset folder, named by a hash of its path.
//
// Called by folder_source on a scan's thread; blocking; safe in any number of threads and processes at once.
// A file is made whole under another name and then renamed, so that a reader sees the old or the new one. One
// that is not the daemon's user's own, or that others may write, is not believed. Failure costs a scan, never
// the dataset.
#pragma once

#include <string>

#include "io/manifest.h"
#include "shm/error.h"

namespace sl {

// $XDG_CACHE_HOME or ~/.cache, /speedyloader/manifests; empty if the environment names neither.
std::string user_manifest_folder();

// Where the manifest of the folder `root` lies.
std::string manifest_path(const std::string& cache_folder, const std::string& root);

// kNotFound: there is none. kDataset, kDenied: there is something that is not believed, with the reason.
Result<Manifest> load_manifest(const std::string& path, const std::string& root);

// Says that it was used just now, by its file's times: the ones that are not make room (manifest_room.h).
void touch_manifest(const std::string& path);

// Makes the cache folder if need be, and room in it. kIo with the reason; a file that was there before stays
// then.
Result<void> save_manifest(const std::string& path, const Manifest& manifest);

}  // namespace sl
