#include "memory/shared_surface.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/topology.hpp"

namespace orrery::memory {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<SharedSurface>> surfaces;
};

Registry& registry() {
  static Registry& registry = *new Registry;  // models of other static objects may outlive no other
  return registry;
}

}  // namespace

Result<std::shared_ptr<SharedSurface>> SharedSurface::open(const std::string& name,
                                                           std::uint64_t bytes) {
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  std::erase_if(known.surfaces, [](const auto& entry) { return entry.second.expired(); });
  const auto found = known.surfaces.find(name);
  if (found != known.surfaces.end()) {
    std::shared_ptr<SharedSurface> surface = found->second.lock();
    if (surface != nullptr && surface->surface_.size() == bytes) return surface;
  }
  ORRERY_TRY(Surface surface, Surface::reserve(Arena::process(), bytes));
  auto made = std::make_shared<SharedSurface>(std::move(surface), bytes == 0 ? "" : name);
  if (!name.empty()) known.surfaces[name] = made;
  return made;
}

bool SharedSurface::is_made() {
  const std::scoped_lock lock(mutex_);
  return is_ready_ || (!name_.empty() && Share::has_owner(name_));
}

bool SharedSurface::take_from_other(const std::function<bool()>& is_right) {
  if (name_.empty()) return false;
  if (!share_) share_.emplace(name_);
  Result<Descriptor> file = share_->receive(surface_.size());
  if (!file || !surface_.adopt(std::move(*file)) || !is_right()) return false;
  how_ = fmt::format("{} of process {}", surface_.what(), share_->owner());
  share_->publish(surface_.file(), surface_.size());
  return true;
}

Status SharedSurface::ready(const std::function<Status()>& fill,
                            const std::function<bool()>& is_right, bool must_seal) {
  const std::scoped_lock lock(mutex_);
  if (surface_.size() == 0) return {};
  if (!is_ready_ && !take_from_other(is_right)) {
    if (surface_.size() > available_memory()) {
      return fail("E_MEMORY", fmt::format("{} bytes are needed and {} of memory are available",
                                          surface_.size(), available_memory()));
    }
    ORRERY_TRY_VOID(surface_.make());
    ORRERY_TRY_VOID(fill());
    const Status sealed = surface_.seal();
    if (must_seal && !sealed) return sealed;
    how_ = sealed ? surface_.what() : sealed.error().message;
    if (share_ && surface_.is_sealed()) share_->publish(surface_.file(), surface_.size());
  }
  is_ready_ = true;
  if (!must_seal || surface_.is_sealed()) return {};
  return fail("E_SEAL", "the weights cannot be sealed: " + how_);
}

}  // namespace orrery::memory
