// Where this user's kept files lie: manifests, samples known to be bad, costs.
//
// Any thread; cannot fail.
#pragma once

#include <string>
#include <string_view>

namespace sl {

// $XDG_CACHE_HOME/speedyloader/`name`, else below ~/.cache; empty if the environment names neither. Makes
// nothing.
std::string user_cache_path(std::string_view name);

}  // namespace sl
