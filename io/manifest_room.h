// Keeps the cache folder of manifests small: folders that are gone, and old jobs, leave theirs behind.
//
// Called by save_manifest when a new one has been kept, so after a scan, which costs more; blocking; safe in
// any number of threads and processes at once. What it cannot look at or remove it leaves: it never fails.
#pragma once

#include <cstdint>
#include <string>

namespace sl {

inline constexpr std::size_t kMostManifests = 1'000;
inline constexpr std::uint64_t kMostManifestBytes = std::uint64_t{2} << 30;
// Of the folder, at one time; more are somebody else's files.
inline constexpr std::size_t kMostManifestEntries = 4'096;

// Removes the manifests that were used longest ago, by their files' times (manifest_file.h touches a file
// that is used), until at most kMostManifests of kMostManifestBytes are left. `newest`, a path in the folder,
// stays however large it is. What a killed writer left counts as a manifest; one that is being written stays.
// Only names that manifest_path makes are looked at.
void make_manifest_room(const std::string& cache_folder, const std::string& newest);

}  // namespace sl
