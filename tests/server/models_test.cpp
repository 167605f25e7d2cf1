// Models with a store that only pretends: who asks, who waits, who goes, on real threads.
#include "server/models.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "server/fake_store.hpp"

namespace orrery::server {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMega = 1U << 20;

class ModelsTest : public testing::Test {
 protected:
  void start(std::uint64_t budget, std::vector<ModelSource> sources, Keep keep = kForever) {
    auto store = std::make_unique<FakeStore>();
    store_ = store.get();
    ModelsOptions options;
    options.residency.budget = budget * kMega;
    options.residency.turn = Keep(20);
    options.residency.notice = Keep(10);
    options.keep_others = keep;
    models_ = std::make_unique<Models>(std::move(store), sources, options);
  }
  static ModelSource source(const std::string& id, std::uint64_t mega,
                            const std::string& path = {}) {
    const std::string where = path.empty() ? "/cache/" + id : path;
    return {id, where, where, mega * kMega, mega * kMega, 0, false};
  }
  // The lease, or the error, whenever it comes.
  std::future<ApiResult<Lease>> ask(const std::string& name, std::optional<Keep> keep = {},
                                    WaiterId waiter = 0) {
    auto promise = std::make_shared<std::promise<ApiResult<Lease>>>();
    auto future = promise->get_future();
    Waiting waiting;
    waiting.answered = [promise](ApiResult<Lease> lease) { promise->set_value(std::move(lease)); };
    auto at_once = models_->ask(waiter != 0 ? waiter : models_->new_waiter(), name, keep, waiting);
    if (at_once) promise->set_value(std::move(*at_once));
    return future;
  }
  Presence presence(const std::string& name) { return models_->describe(name)->presence; }
  bool becomes(const std::string& name, Presence wanted) {
    for (int i = 0; i < 1000 && presence(name) != wanted; ++i) std::this_thread::sleep_for(5ms);
    return presence(name) == wanted;
  }

  FakeStore* store_ = nullptr;
  std::unique_ptr<Models> models_;
};

TEST_F(ModelsTest, LoadsOnDemandAndSharesOneFile) {
  start(0, {source("a", 1), source("b", 1, "/cache/a"), source("c", 1)});
  EXPECT_EQ(models_->find("a").error().status, 503);
  const auto lease = ask("b").get();
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ((*models_->find("b"))->id, "a");  // its first name
  EXPECT_EQ((*models_->find("a:latest"))->id, "a");
  EXPECT_EQ((*models_->find(""))->id, "a");
  EXPECT_EQ(models_->all().size(), 1U);
  EXPECT_EQ(models_->list().size(), 3U);
  EXPECT_EQ(store_->loads, 1);
  EXPECT_EQ(presence("c"), Presence::absent);
  EXPECT_EQ(ask("other").get().error().status, 404);
}

TEST_F(ModelsTest, TellsWhatTheFilesSayWithoutALoad) {
  start(0, {source("a", 1), source("broken", 1)});
  EXPECT_EQ(models_->describe("a")->facts, nullptr);
  EXPECT_EQ(models_->inspect("a")->facts->info.family, "fake");
  EXPECT_NE(models_->describe("a")->facts, nullptr);
  EXPECT_EQ(models_->inspect("broken")->facts, nullptr);
  EXPECT_EQ(models_->inspect("x").error().status, 404);
  EXPECT_EQ(store_->loads, 0);
}

TEST_F(ModelsTest, AlternatesInABudgetThatHoldsOne) {
  start(10, {source("a", 8), source("b", 8)});
  for (int i = 0; i < 10; ++i) {
    const std::string name = i % 2 == 0 ? "a" : "b";
    const auto lease = ask(name).get();
    ASSERT_TRUE(lease.has_value());
    EXPECT_TRUE(models_->find(name).has_value());
    EXPECT_FALSE(models_->find(i % 2 == 0 ? "b" : "a").has_value());
  }
  EXPECT_EQ(models_->describe("a")->evictions, 5U);
  EXPECT_EQ(models_->describe("a")->loads, 5U);
}

TEST_F(ModelsTest, OthersAreAnsweredWhileOneLoads) {
  start(0, {source("a", 1), source("b", 1)});
  const auto a = ask("a").get();
  store_->set_open(false);
  auto b = ask("b");
  store_->wait_for_loads(2);
  EXPECT_EQ(presence("b"), Presence::loading);
  EXPECT_TRUE(ask("a").get().has_value());
  EXPECT_EQ(b.wait_for(0s), std::future_status::timeout);
  store_->set_open(true);
  EXPECT_TRUE(b.get().has_value());
}

TEST_F(ModelsTest, AFailureIsToldToAllWithoutPaths) {
  start(0, {source("a", 1), source("b", 1)});
  store_->broken = {"a"};
  store_->set_open(false);
  auto first = ask("a");
  auto second = ask("a");
  store_->set_open(true);
  const auto error = first.get().error();
  EXPECT_EQ(error.status, 500);
  EXPECT_EQ(error.code, "model_load_failed");
  EXPECT_NE(error.message.find("E_TRUNC"), std::string::npos);
  EXPECT_EQ(error.message.find("secret"), std::string::npos);
  EXPECT_EQ(second.get().error().message, error.message);
  EXPECT_EQ(ask("a").get().error().message, error.message);  // the same, a moment later
  EXPECT_EQ(presence("a"), Presence::failed);
  EXPECT_TRUE(ask("b").get().has_value());
}

TEST_F(ModelsTest, KeepAliveLetsGo) {
  start(0, {source("a", 1)}, Keep(30));
  ask("a").get()->reset();
  EXPECT_TRUE(becomes("a", Presence::absent));
  auto lease = ask("a", kForever).get();
  lease->reset();
  std::this_thread::sleep_for(80ms);
  EXPECT_EQ(presence("a"), Presence::ready);
  ASSERT_TRUE(models_->unload("a").has_value());
  EXPECT_TRUE(becomes("a", Presence::absent));
}

TEST_F(ModelsTest, ACancelledOneHearsNothing) {
  start(0, {source("a", 1)});
  store_->set_open(false);
  const WaiterId waiter = models_->new_waiter();
  auto gone = ask("a", {}, waiter);
  auto other = ask("a");
  store_->wait_for_loads(1);
  models_->cancel(waiter);
  EXPECT_EQ(models_->waiting(), 1U);
  store_->set_open(true);
  EXPECT_TRUE(other.get().has_value());
  EXPECT_THROW(gone.get(), std::future_error);  // the promise went without a word
}

TEST_F(ModelsTest, WhoWaitsLongHearsOfItBeforeTheAnswer) {
  start(0, {source("a", 1)});
  store_->set_open(false);
  std::promise<void> told;
  std::promise<bool> granted;
  Waiting waiting;
  waiting.waits_long = [&] { told.set_value(); };
  waiting.answered = [&](const ApiResult<Lease>& lease) { granted.set_value(lease.has_value()); };
  EXPECT_FALSE(models_->ask(models_->new_waiter(), "a", {}, waiting).has_value());
  told.get_future().get();
  store_->set_open(true);
  EXPECT_TRUE(granted.get_future().get());
}

TEST_F(ModelsTest, BoundsTheBytesOfThoseWhoWait) {
  start(0, {source("a", 1), source("b", 1)});
  const auto b = ask("b").get();
  store_->set_open(false);
  Waiting large;
  large.answered = [](const ApiResult<Lease>&) {};
  large.bytes = Worker::kMaxBytes;
  EXPECT_FALSE(models_->ask(models_->new_waiter(), "a", {}, large).has_value());
  large.bytes = 1;
  const auto refused = models_->ask(models_->new_waiter(), "a", {}, large);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->error().code, "queue_full");
  EXPECT_EQ(models_->waiting(), 1U);
  EXPECT_TRUE(models_->ask(models_->new_waiter(), "b", {}, large)->has_value());  // it is there
  store_->set_open(true);
}

TEST_F(ModelsTest, TheDrainRefusesThoseWhoWait) {
  start(0, {source("a", 1)});
  store_->set_open(false);
  auto waits = ask("a");
  store_->wait_for_loads(1);
  models_->drain();
  EXPECT_EQ(waits.get().error().status, 503);
  EXPECT_EQ(ask("a").get().error().code, "draining");
  store_->set_open(true);
}

TEST_F(ModelsTest, PreloadsWhatFits) {
  std::vector<ModelSource> sources = {source("a", 6), source("b", 6), source("c", 3)};
  for (ModelSource& one : sources) one.named = true;
  start(10, sources);
  ASSERT_TRUE(models_->preload().has_value());
  EXPECT_EQ(presence("a"), Presence::ready);
  EXPECT_EQ(presence("b"), Presence::absent);
  EXPECT_EQ(presence("c"), Presence::ready);
  sources[1].bytes = 11 * kMega;
  start(10, sources);
  EXPECT_EQ(models_->preload().error().kind, "E_MEMORY");
  start(0, sources);
  store_->broken = {"b"};
  EXPECT_EQ(models_->preload().error().kind, "E_TRUNC");
}

TEST_F(ModelsTest, RemovesAfterTheLastAnswer) {
  start(0, {source("a", 1), source("b", 1, "/elsewhere"), source("c", 1)});
  std::promise<ApiStatus> removed;
  const auto done = [&](ApiStatus status) { removed.set_value(std::move(status)); };
  EXPECT_EQ(models_->remove("x", done).error().status, 404);
  EXPECT_EQ(models_->remove("b", done).error().status, 403);
  auto lease = ask("a").get();
  EXPECT_EQ(models_->remove("a", done).error().status, 409);
  lease->reset();
  ASSERT_TRUE(models_->remove("a", done).has_value());
  EXPECT_TRUE(removed.get_future().get().has_value());
  EXPECT_EQ(store_->removed, std::set<std::string>{"/cache/a"});
  EXPECT_EQ(ask("a").get().error().status, 404);
  EXPECT_EQ(models_->describe("")->id, "b");
  EXPECT_TRUE(models_->add(source("a", 1)));  // pulled again
  EXPECT_TRUE(ask("a").get().has_value());
  EXPECT_FALSE(models_->add(source("c", 1, "/cache/other")));

  store_->undeletable = true;
  std::promise<ApiStatus> failed;
  ASSERT_TRUE(models_->remove("c", [&](ApiStatus status) { failed.set_value(std::move(status)); }));
  EXPECT_EQ(failed.get_future().get().error().status, 500);
  EXPECT_TRUE(ask("c").get().has_value());
}

// Many threads, three models, a budget for one or two: everybody is answered.
TEST_F(ModelsTest, NobodyIsLostInACrowd) {
  start(10, {source("a", 4), source("b", 6), source("c", 8), source("broken", 3)});
  store_->broken = {"broken"};
  std::atomic<int> granted{0}, refused{0}, cancelled{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 50; ++i) {
        constexpr const char* kNames[] = {"a", "b", "c", "broken"};
        const WaiterId waiter = models_->new_waiter();
        const auto keep = random() % 8 == 0 ? std::optional(Keep(0)) : std::nullopt;
        const std::string name = kNames[random() % 4];
        auto future = ask(name, keep, waiter);
        if (random() % 8 == 0) models_->cancel(waiter);
        try {
          auto lease = future.get();
          if (lease && !models_->find(name)) ADD_FAILURE() << name << " went while it was in use";
          ++(lease ? granted : refused);
        } catch (const std::future_error&) {
          ++cancelled;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted + refused + cancelled, 8 * 50);
  EXPECT_GT(granted, 200);
  EXPECT_EQ(models_->waiting(), 0U);
}

}  // namespace
}  // namespace orrery::server
