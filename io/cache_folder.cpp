// See cache_folder.h.
#include "io/cache_folder.h"

#include <cstdlib>

namespace sl {

std::string user_cache_path(std::string_view name) {
    const char* cache = ::secure_getenv("XDG_CACHE_HOME");
    const char* home = ::secure_getenv("HOME");
    // A relative path is to be ignored, says the XDG base directory specification.
    if (cache != nullptr && cache[0] == '/') return std::string(cache).append("/speedyloader/").append(name);
    if (home != nullptr && home[0] == '/')
        return std::string(home).append("/.cache/speedyloader/").append(name);
    return {};
}

}  // namespace sl
