// A trust domain: what the streams of one user share, and no other user's streams ever touch.
//
// A worker decodes files that may be hostile; taken over, it can read and change whatever it has mapped. So
// all that it has mapped is one user's: file bytes in the domain's own arena, samples in its streams'
// segments. What its workers claim of files (which are bad) is believed in the domain only. A domain belongs
// to its user's native crew (crew.h) and to reads that have not returned, whichever ends last; memory comes
// from the kernel, zeroed, and goes back to it, never to another domain. On the conductor's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "daemon/pool/input_arena.h"
#include "daemon/quarantine/quarantine.h"
#include "daemon/stream/memory_budget.h"

namespace sl {

struct Domain {
    uid_t uid = 0;
    MemoryBudget::Share memory;
    InputArena input;
    std::unique_ptr<Quarantine> quarantine;
    std::uint64_t hung_bytes = 0;      // of the arena: held by reads that have not returned in time
    std::deque<std::uint64_t> unseen;  // tags of runnable samples whose header nobody has been asked for

    // Reserves the arena. `quarantine_file` "": known bad samples are forgotten with the domain. kBudget,
    // kNoMemory.
    static Result<std::shared_ptr<Domain>> create(uid_t uid, std::uint64_t input_bytes,
                                                  const std::string& quarantine_file, MemoryBudget& budget);
    // Whether nobody but hung reads holds input buffers: who finds no room now would wait for them.
    [[nodiscard]] bool is_starved() const { return hung_bytes > 0 && input.used() == hung_bytes; }
};

}  // namespace sl
