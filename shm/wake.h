// Waking another process: futex words in shared memory, eventfds and socket pairs for event loops.
//
// A futex wait works on a read-only map (measured on Linux 6.x), so a client can sleep on a word that only
// the daemon may write. All calls are thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

// Sleeps while *word == expected, at most `timeout`. Spurious returns are normal: look again.
void futex_wait(const std::uint32_t* word, std::uint32_t expected, std::chrono::nanoseconds timeout);

// Wakes every process that sleeps on the word.
void futex_wake_all(const std::uint32_t* word);

// Two ends of a bell between processes that do not trust each other: one rings, the other becomes readable.
// Unlike an eventfd, whose O_NONBLOCK all holders share, neither end can make the other block.
struct Bell {
    UniqueFd ringer;
    UniqueFd listener;  // readable while there are rings; recv(MSG_DONTWAIT) takes them one by one
};
Result<Bell> make_bell();

// Never blocks; a bell that is full is already readable, and nobody need listen.
void ring_bell(int ringer);

// A non-blocking, close-on-exec eventfd.
Result<UniqueFd> make_event_fd();

// Adds one; a counter that is full is already readable, so EAGAIN is success. May block where a process that
// is not trusted holds the descriptor too.
void ring(int event_fd);

// Takes the count, so that the descriptor is no longer readable. May block just so.
void quiet(int event_fd);

}  // namespace sl
