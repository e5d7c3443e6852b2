// A guest worker as Python sees it: jobs with writable views of the item's fields.
//
// Calls that overlap are serialised by one mutex, taken without the GIL. Waits are slices, between which
// Ctrl-C is noticed; a job that an exception came in front of is given again by the library. Views hold the
// memory that they lie in, so that one which is kept too long is stale and no fault. In a forked child every
// call raises ForkedError before it touches a lock.
#pragma once

#include <nanobind/nanobind.h>
#include <speedyloader/speedyloader.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gil.h"

namespace sl::python {

class Guest {
  public:
    // Attaches, without the GIL.
    Guest(const std::optional<std::string>& socket, std::uint64_t crew, std::uint32_t workers);
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

    // A job, or false if none came in time. No time-out: waits without end.
    bool next(std::optional<double> timeout_s, sl_guest_job& job);
    std::shared_ptr<sl_memory> hold(const sl_guest_job& job);
    void done(const sl_guest_job& job, std::uint64_t payload_bytes);
    void failed(const sl_guest_job& job, const std::string& text);
    void close();
    [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_relaxed); }

  private:
    std::unique_lock<std::mutex> lock();

    const pid_t pid_;
    FairMutex mutex_;  // guards guest_
    sl_guest* guest_ = nullptr;
    std::atomic<bool> closed_{false};
};

// One field of an item, a buffer of bytes to write to; or a row to collate, to read.
class GuestField {
  public:
    GuestField(std::shared_ptr<sl_memory> memory, void* data, std::uint64_t bytes, bool readonly)
        : memory_(std::move(memory)), data_(data), bytes_(bytes), readonly_(readonly) {}

    [[nodiscard]] void* data() const { return data_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] bool readonly() const { return readonly_; }

  private:
    std::shared_ptr<sl_memory> memory_;
    void* data_;
    std::uint64_t bytes_;
    bool readonly_;
};

class GuestJob {
  public:
    // `owner` is the Python object of `guest`.
    GuestJob(nanobind::object owner, Guest& guest, const sl_guest_job& job);

    [[nodiscard]] const sl_guest_job& job() const { return job_; }
    [[nodiscard]] const nanobind::tuple& fields() const { return fields_; }
    [[nodiscard]] const nanobind::list& rows() const { return rows_; }
    void done(std::uint64_t payload_bytes);
    void failed(const nanobind::str& text);

  private:
    void release_views();

    nanobind::object owner_;
    Guest& guest_;
    sl_guest_job job_;
    nanobind::tuple fields_;
    nanobind::list rows_;  // to collate
};

void register_guest(nanobind::module_& module);

}  // namespace sl::python
