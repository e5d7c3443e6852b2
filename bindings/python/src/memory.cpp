#include "memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ranges>

namespace sl::python {

namespace {

using Lease = std::unique_ptr<sl_batch, sl_status (*)(sl_batch*)>;

constexpr std::size_t kAlign = 256;  // every tensor's border, as in the ring

std::size_t align(std::size_t bytes) {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Block make_block(std::size_t bytes) {
    Block block(static_cast<std::byte*>(std::aligned_alloc(kAlign, std::max(align(bytes), kAlign))),
                &std::free);
    if (block == nullptr) throw std::bad_alloc();
    return block;
}

void Leases::add(const sl_batch* batch, const sl_batch_info& info) {
    std::lock_guard lock(mutex_);
    held_[batch] = {info.epoch, info.batch, std::chrono::steady_clock::now()};
}

void Leases::remove(const sl_batch* batch) {
    std::lock_guard lock(mutex_);
    held_.erase(batch);
}

std::uint32_t Leases::count() const {
    std::lock_guard lock(mutex_);
    return static_cast<std::uint32_t>(held_.size());
}

std::string Leases::describe() const {
    std::vector<Held> all;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [batch, held] : held_)
            all.push_back(held);
    }
    std::ranges::sort(all, {}, &Held::since);
    constexpr std::size_t kShown = 8;
    std::string text;
    for (const Held& held : all | std::views::take(kShown)) {
        std::chrono::duration<double> age = std::chrono::steady_clock::now() - held.since;
        char item[80];
        std::snprintf(item, sizeof item, "%sbatch %llu of epoch %llu (%.1f s)", text.empty() ? "" : ", ",
                      static_cast<unsigned long long>(held.batch),
                      static_cast<unsigned long long>(held.epoch), age.count());
        text += item;
    }
    return all.size() > kShown ? text + ", ..." : text;
}

Memory::Memory() : pid_(::getpid()), block_(nullptr, &std::free) {}

Memory::~Memory() {
    // A forked child has its own copy of this object, but the lease is its parent's; the list's lock may have
    // been held by a thread that the child does not have.
    if (batch_ == nullptr || ::getpid() != pid_) return;
    leases_->remove(batch_);
    (void)sl_batch_release(batch_);
}

void Memory::describe(const sl_batch* batch) {
    info_.struct_size = sizeof info_;
    (void)sl_batch_get_info(batch, &info_);
    std::uint32_t count = 0;
    (void)sl_batch_tensor_count(batch, &count);
    tensors_.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        const char* name = "";
        tensors_[i].tensor.struct_size = sizeof(sl_tensor);
        (void)sl_batch_tensor_at(batch, i, &name, &tensors_[i].tensor);
        tensors_[i].name = name;
    }
}

std::shared_ptr<const Memory> Memory::leased(sl_batch* batch, std::shared_ptr<Leases> leases) {
    Lease lease(batch, &sl_batch_release);  // ends if memory runs out before somebody else has taken it over
    auto made = std::make_shared<Memory>();
    made->describe(batch);
    leases->add(batch, made->info_);
    made->leases_ = std::move(leases);
    made->batch_ = lease.release();
    return made;
}

void Memory::move_to_own_block() {
    std::size_t bytes = 0;
    for (const TensorView& view : tensors_)
        bytes += align(view.tensor.bytes);
    block_ = make_block(bytes);
    std::byte* to = block_.get();
    for (TensorView& view : tensors_) {
        std::memcpy(to, view.tensor.data, view.tensor.bytes);
        view.tensor.data = to;
        to += align(view.tensor.bytes);
    }
}

std::shared_ptr<const Memory> Memory::copied(const Memory& other) {
    auto made = std::make_shared<Memory>();
    made->info_ = other.info_;
    made->tensors_ = other.tensors_;
    for (std::uint32_t row = 0; row < other.info_.count; ++row)
        made->samples_.push_back(other.sample(row));
    made->move_to_own_block();
    return made;
}

bool Memory::allow_writes() const {
    return batch_ == nullptr || sl_batch_allow_writes(batch_) == SL_OK;
}

sl_sample_info Memory::sample(std::uint32_t row) const {
    if (batch_ == nullptr) return samples_[row];
    sl_sample_info info{};
    info.struct_size = sizeof info;
    (void)sl_batch_sample(batch_, row, &info);
    return info;
}

}  // namespace sl::python
