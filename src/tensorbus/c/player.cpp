#include "tensorbus/recording/player.hpp"

#include <tensorbus/c/player.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/recordings.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/c/to_c.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

struct tb_player {
  recording::Player player;
};

namespace {

PlayerOptions options_of(const tb_player_options& given) {
  PlayerOptions options{
      .topics = texts_of(given.topics, given.topic_count, "topics"),
      .rate = given.rate,
      .loop = given.loop != 0,
      .paused = given.paused != 0,
      .begin_ns = given.begin_ns,
      .end_ns = given.end_ns,
      .clock = text_or_none(given.clock),
      .device = given.restores != 0 ? std::optional(device_of(given.device)) : std::nullopt,
      .domain = text_or_none(given.domain)};
  const auto renamed = texts_of(given.renamed, given.renamed_count, "renamed");
  const auto names = texts_of(given.new_names, given.renamed_count, "new_names");
  for (std::size_t i = 0; i < renamed.size(); ++i) options.remap[renamed[i]] = names[i];
  return options;
}

recording::Player& in(tb_player* player) { return required(player, "player").player; }

}  // namespace

tb_status tb_player_create(const tb_recording* recording, const tb_player_options* options,
                           tb_player** player) {
  return done([&] {
    const recording::Recording& known = required(recording, "recording").recording;
    const auto given = taken_or<tb_player_options>(options, TB_PLAYER_OPTIONS_INIT);
    const PlayerOptions how = options_of(given);
    hand_out(player, "player", [&] { return new tb_player{recording::Player(known, how)}; });
  });
}

void tb_player_destroy(tb_player* player) { delete player; }

tb_status tb_player_close(tb_player* player) {
  return done([&] { in(player).close(); });
}

tb_status tb_player_pause(tb_player* player) {
  return done([&] { in(player).pause(); });
}

tb_status tb_player_resume(tb_player* player) {
  return done([&] { in(player).resume(); });
}

tb_status tb_player_step(tb_player* player, uint64_t count) {
  return done([&] { in(player).step(count); });
}

tb_status tb_player_set_rate(tb_player* player, double rate) {
  return done([&] { in(player).set_rate(rate); });
}

tb_status tb_player_wait_for_subscribers(tb_player* player, int64_t timeout_ns,
                                         const tb_give_up* give_up) {
  return guarded(
      [&] { return status_of(in(player).wait_for_subscribers(stop_of(timeout_ns, give_up))); });
}

tb_status tb_player_wait(tb_player* player, int64_t timeout_ns, const tb_give_up* give_up) {
  return guarded([&] { return status_of(in(player).wait(stop_of(timeout_ns, give_up))); });
}

tb_status tb_player_get_stats(const tb_player* player, tb_player_stats* stats) {
  return done([&] {
    const PlayerStats found = required(player, "player").player.stats();
    give(&required(stats, "stats"), c_stats<tb_player_stats>(found));
  });
}

tb_status tb_player_last_error(const tb_player* player, char* text, size_t bytes) {
  return done([&] { give_text(required(player, "player").player.stats().error, text, bytes); });
}
