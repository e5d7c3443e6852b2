// Letting other Python threads run while this one waits, copies or talks to the daemon.
//
// Needs the GIL at its start and has it again at its end. When the interpreter has ended meanwhile there is
// no GIL to come back to: up to version 3.13 Python then ends the thread by pthread_exit, whose unwinding
// would meet noexcept destructors and nanobind's catch (...), and the process would abort. Such a thread
// stays where it is instead, as Python 3.14 has it, after it has given up the lock that a finaliser may want.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <mutex>

namespace sl::python {

class ReleasedGil {
  public:
    // held: a lock that outlives this, locked or not; null: none.
    explicit ReleasedGil(std::unique_lock<std::mutex>* held = nullptr)
        : held_(held), state_(PyEval_SaveThread()) {}
    ~ReleasedGil() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            if (held_ != nullptr && held_->owns_lock()) held_->unlock();
            for (;;)
                ::pause();
        }
    }
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

  private:
    std::unique_lock<std::mutex>* held_;
    PyThreadState* state_;
};

// A mutex for what a thread keeps but for moments while it waits: whoever waits for the mutex is next, for
// that thread would mostly have it again before the other one wakes.
class FairMutex {
  public:
    // Without the GIL.
    std::unique_lock<std::mutex> enter() {
        std::lock_guard next_in_line(line_);
        return std::unique_lock(mutex_);
    }
    // With the GIL, which it lets go of where it has to wait.
    std::unique_lock<std::mutex> lock() {
        std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock) {
            ReleasedGil released(&lock);
            lock = enter();
        }
        return lock;
    }

  private:
    std::mutex line_;  // held by who waits for mutex_
    std::mutex mutex_;
};

}  // namespace sl::python
