// The log of samples that could not be read: a burst is told at once, then counted.
//
// A mount that goes away fails thousands of samples in a second. The first of a kind and dataset is logged
// with its path and reason; what follows is counted, and the count logged ten seconds later. On the
// conductor's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "daemon/pool/event_loop.h"
#include "shm/error.h"

namespace sl {

class FailureLog {
  public:
    explicit FailureLog(EventLoop& loop) : loop_(loop) {}
    ~FailureLog();  // tells what has been counted
    FailureLog(const FailureLog&) = delete;
    FailureLog& operator=(const FailureLog&) = delete;

    // Nothing is logged of samples that are bad themselves: the stream's report names them.
    void failed(const std::string& dataset, const std::string& path, const SampleError& error);

  private:
    using Burst = std::pair<std::string, SampleErrorKind>;
    void tell(const Burst& burst, std::uint64_t more);

    EventLoop& loop_;
    std::map<Burst, std::uint64_t> more_;  // of the bursts under way, after the first
};

}  // namespace sl
