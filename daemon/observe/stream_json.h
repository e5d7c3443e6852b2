// One stream as JSON, for the status and the stream's report: what it has done, its consumer, its
// predictions.
//
// Called by status.cpp and report.cpp, on the conductor's thread; reads, changes nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/stream/stream.h"

namespace sl {

using Json = nlohmann::ordered_json;

Json stream_json(const Stream& stream);

// A document's text. File names may be any bytes; JSON wants UTF-8: what is not is shown replaced.
std::string dump(const Json& json);

}  // namespace sl
