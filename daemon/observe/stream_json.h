// One stream as JSON, for the status and the stream's report: what it has done, its consumer, its
// predictions.
//
// Called by status.cpp, on the conductor's thread; reads, changes nothing.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon/stream/stream.h"

namespace sl {

using Json = nlohmann::ordered_json;

Json stream_json(const Stream& stream);

}  // namespace sl
