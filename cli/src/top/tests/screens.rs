//! The screens of `top` as text.

use super::{Desk, busy, store};
use crate::top::key::Key;

/// Fails with both texts if they differ.
#[track_caller]
fn assert_shows(desk: &Desk, columns: u16, lines: u16, expected: &str) {
    let shown = desk.shown(columns, lines);
    assert!(shown.trim() == expected.trim(), "expected:\n{expected}\nshown:\n{shown}");
}

#[test]
fn overview_lists_tubes_running_tasks_failure_groups_and_schedules() {
    let (desk, _worker) = busy();
    assert_shows(&desk, 114, 20, "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  tubes ───────────────────────────────────────────────────────────────────────────────────────────────────────────
 TUBE  READY  AGE  TAKEN  DELAYED  BURIED  FAIL/S  PAUSED  PUT/S  TAKE/S  ACK/S  BLOCKED  OVERDUE  WAITING  KEPT
>mail      1  0ms      2        1       1       0              0       0      0        0        0        0     0
 news      0           0        0       0       0      1m      0       0      0        0        0        0     0
  running tasks ───────────────────────────────────────────────────────────────────────────────────────────────────
 TUBE  ID  OWNER     FOR  EXPIRES  PROGRESS
 mail   0  worker-3  0ms           3 of 10
 mail   1  worker-3  0ms           3 of 10
  failure groups ──────────────────────────────────────────────────────────────────────────────────────────────────
 TUBE  BURIED  GROUP
 mail       1  dns
  schedules ───────────────────────────────────────────────────────────────────────────────────────────────────────
 TUBE  KEY     NEXT IN  RUNS  WHEN      STOPPED
 news  hourly      10m     0  every 1h




 Enter open  Tab next list  k kick  p pause  / filter  ? help  q quit");
}

#[test]
fn overview_of_80_columns_shows_the_failures_a_second() {
    let (desk, _worker) = busy();
    let shown = desk.shown(80, 20);
    let head = shown.lines().find(|line| line.starts_with(" TUBE")).unwrap();
    assert!(head.contains("FAIL/S  PAUSED  PUT/S  TAKE/S"), "{shown}");
}

#[test]
fn overview_of_an_empty_store_says_so() {
    let (clock, store) = store();
    assert_shows(&Desk::at(clock, store), 114, 6, "\
 jobs.tubewell  0 tubes: 0 ready, 0 taken, 0 buried
  no tubes: `tubewell create` creates one ─────────────────────────────────────────────────────────────────────────
 TUBE  READY  AGE  TAKEN  DELAYED  BURIED  FAIL/S  PAUSED  PUT/S  TAKE/S  ACK/S  BLOCKED  OVERDUE  WAITING  KEPT


 Enter open  Tab next list  k kick  p pause  / filter  ? help  q quit");
}

#[test]
fn tube_lists_its_tasks_by_state() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Enter]);
    assert_shows(&desk, 110, 8, "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  mail: [ready 1] taken 2 delayed 1 blocked 0 buried 1 done 0 ─────────────────────────────────────────────────
 ID  PRI  TAKES  ATTEMPTS  SIZE  TIMES  KEY  TAGS    FAILURE
> 3  100      0         0  13 B  -      dan  letter



 Enter look  Left/Right state  k kick  d delete  p pause  / filter  Esc back  ? help  q quit");
    desk.press([Key::Right, Key::Right]);
    assert_shows(&desk, 110, 8, "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  mail: ready 1 taken 2 [delayed 1] blocked 0 buried 1 done 0 ─────────────────────────────────────────────────
 ID  PRI  TAKES  ATTEMPTS  SIZE  TIMES           KEY  TAGS  FAILURE
> 4  100      0         0   5 B  ready in 1m30s



 Enter look  Left/Right state  k kick  d delete  p pause  / filter  Esc back  ? help  q quit");
    desk.press([Key::Right, Key::Right]);
    assert_shows(&desk, 110, 8, "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  mail: ready 1 taken 2 delayed 1 blocked 0 [buried 1] done 0 ─────────────────────────────────────────────────
 ID  PRI  TAKES  ATTEMPTS  SIZE  TIMES  KEY  TAGS    FAILURE
> 2  100      1         1  13 B  -      cem  letter  dns: ?



 Enter look  Left/Right state  k kick  d delete  p pause  / filter  Esc back  ? help  q quit");
    desk.press([Key::Right, Key::Right]);
    assert!(desk.shown(110, 8).contains("[ready 1]"));
}

#[test]
fn task_shows_its_fields_its_last_failure_its_history_and_its_body() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Enter, Key::Left, Key::Left, Key::Enter]);
    assert_shows(
        &desk,
        90,
        26,
        "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  task 2 of mail ──────────────────────────────────────────────────────────────────────────
 task      2
 state     buried
 put       2026-01-01T00:00:00Z, 0ms ago
 priority  100
 taken     1 time
 buried    2026-01-01T00:00:00Z, 0ms ago
 buried by a call
 group     dns
 failure   dns in attempt 1, 0ms ago, by worker-3
 message   ?
 size      13 B
 key       cem
 tags      letter

 history
 2026-01-01T00:00:00Z  put         ready
 2026-01-01T00:00:00Z  take        taken      worker-3
 2026-01-01T00:00:00Z  bury        buried     worker-3  dns: ?

 body
 to: cem
 hello

 k kick  d delete  p pause  Esc back  ? help  q quit",
    );
}

#[test]
fn running_task_shows_its_owner_and_its_progress() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Tab, Key::Enter]);
    assert_shows(
        &desk,
        90,
        24,
        "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  task 0 of mail ──────────────────────────────────────────────────────────────────────────
 task      0
 state     taken
 put       2026-01-01T00:00:00Z, 0ms ago
 priority  100
 taken     1 time
 progress  3 of 10
 size      13 B
 key       ann
 tags      letter
 owner     worker-3, for 0ms

 history
 2026-01-01T00:00:00Z  put         ready
 2026-01-01T00:00:00Z  take        taken      worker-3

 body
 to: ann
 hello



 k kick  d delete  p pause  Esc back  ? help  q quit",
    );
}

#[test]
fn help_lists_the_keys_until_the_next_key() {
    let (mut desk, _worker) = busy();
    desk.write("?");
    assert_shows(
        &desk,
        90,
        24,
        "\
 jobs.tubewell  2 tubes: 1 ready, 2 taken, 1 buried
  tubes ───────────────────────────────────────────────────────────────────────────────────
 TUBE  READY  AGE  TAKEN  DELAYED  BURIED  FAIL/S  PAUSED  PUT/S  TAKE/S  ACK/S  BLOCKED  O
>mail ┌ keys ────────────────────────────────────────────────────────────────────────┐ 0
 news │ Up, Down          select the row before, or the next one                     │ 0
  runn│ PageUp, PageDown  move by a page                                             │─────
 TUBE │ Home, End         move to the first row, or to the last one                  │
 mail │ Tab, Shift-Tab    move to the next list, or to the one before                │
 mail │ Enter             open the tube, the failure group, the task or the schedule │
  fail│ Left, Right       in a tube: show the tasks in another state                 │─────
 TUBE │ Esc               go back; remove the filter                                 │
 mail │ k                 make the buried or delayed task, or the group, ready       │
  sche│ d                 delete the task; asks first                                │─────
 TUBE │ p                 pause the tube, or resume it                               │
 news │ /                 show only the rows with a text                             │
      │ r                 read the store anew                                        │
      │ ?                 show this help                                             │
      │ q                 quit                                                       │
      │ Ctrl-C            quit                                                       │
      └──────────────────────────────────────────────────────────────────────────────┘



 Enter open  Tab next list  k kick  p pause  / filter  ? help  q quit",
    );
    desk.write("q");
    assert!(!desk.has_quit && !desk.shown(90, 24).contains("Ctrl-C"));
    desk.write("q");
    assert!(desk.has_quit);
}
