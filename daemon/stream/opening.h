// A stream that is being opened: what was asked for, and how far it is. The conductor's, on its thread, but
// for the stream's memory, which is made in the background.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "daemon/stream/crew.h"
#include "daemon/stream/stream.h"

namespace sl {

struct Opening {
    Spec spec;
    std::shared_ptr<const Dataset> dataset;  // scanned
    Stream::Wish wish;
    Owner owner;
    std::weak_ptr<const void> asker;  // once it has gone nobody is called, and the stream is dropped
    std::function<void(Result<Stream*>)> done;

    std::optional<EventLoop::Clock::time_point> until = {};  // then it waits for kept memory no longer
    Crew* crew = nullptr;                                    // that it keeps from ending
    std::unique_ptr<Stream> stream = {};
    Result<void> memory = {};
};

}  // namespace sl
