// The size of a dataset's first picture, for pipelines that set none.
//
// Called by the scan queue, on a scan's own thread; blocking. The daemon parses no data file: a worker
// process of its own, which gets the file as standard input and nothing else, reads the header and says the
// size.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/pool/worker.h"
#include "daemon/stream/dataset.h"
#include "shm/error.h"

namespace sl {

struct PictureSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
};

// Of the first sample that has one; the first few are tried, since any may be damaged. kDataset if none has,
// with what was wrong with the last.
Result<PictureSize> first_picture_size(const WorkerProgram& worker_program, const Dataset& dataset);

}  // namespace sl
