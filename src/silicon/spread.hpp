// The items of one product, handed to the threads of a team.
#pragma once

#include <vector>

#include "backend/cpu/handout.hpp"
#include "base/thread_team.hpp"

namespace orrery::silicon {

class Spread {
 public:
  explicit Spread(ThreadTeam& team)
      : team_(team), cursors_(static_cast<std::size_t>(team.size())) {}

  int threads() const { return team_.size(); }

  // work(item, thread) for each of the items. One thread does it without the team, whose barrier
  // costs as much as a small product.
  template <class Work>
  void run(int items, const Work& work) {
    if (team_.size() == 1) {
      for (int i = 0; i < items; ++i) work(i, 0);
      return;
    }
    for (backend::cpu::Cursor& cursor : cursors_) cursor.taken = 0;
    struct Job {
      Spread& spread;
      const Work& work;
      int items;
    } job{*this, work, items};
    team_.run(
        [](void* context, int thread) {
          const Job& mine = *static_cast<Job*>(context);
          backend::cpu::Handout handout(mine.spread.cursors_.data(), thread, mine.spread.threads(),
                                        mine.items);
          for (int i = handout.next(); i >= 0; i = handout.next()) mine.work(i, thread);
        },
        &job);
  }

 private:
  ThreadTeam& team_;
  std::vector<backend::cpu::Cursor> cursors_;  // one a thread
};

}  // namespace orrery::silicon
