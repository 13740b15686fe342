//! The text of `--help` below the options: notes, and examples to copy.

pub const TOP: &str = "\
Durations are a number and a unit: 250ms, 1.5s, 10m, 2h, 7d, 1h30m; or never.

Examples:
  export TUBEWELL_STORE=jobs.tubewell
  tubewell create mail                     create a tube, and the store
  tubewell put mail 'to: ann'              put a task
  tubewell import mail < addresses.txt     put one task per line
  tubewell pop mail                        print the next task and remove it
  tubewell claim mail --for 10m            print a token and the next task, and keep it
  tubewell work mail --once -- ./send.sh   run a command for each task
  tubewell stats                           count the tasks
  tubewell top                             show live what happens

Exit codes:
  0      success
  1      failed: the disk, the file or the operating system; damage
  2      wrong usage
  3      no such task, or no task to pop
  4      no such store or tube
  5      in use by a process that does not serve it, or the file is needed
  6      conflict: it already exists, is full or is busy; the disk is full
  7      done in part, or defects found
  127    the command of work cannot be started
  141    the reader of the output has closed it
  128+N  stopped by signal N";

pub const CREATE: &str = "\
Durability:
  flush          a call returns after its flush (fsync)
  write(50ms)    after its write to the file; a flush follows within 50 ms
  relaxed(50ms)  immediately; a flush follows within 50 ms

A power cut loses changes that are not yet flushed. A killed process loses none
of a tube with flush, and of one with write only while the storage fails. The
short forms write and relaxed mean 50 ms. All commands flush before they end, so
this concerns `work` and applications.

Attempts: with --max-attempts a task is buried when its last attempt has failed
or was lost. Each take is an attempt.

Backoff:
  10s                    the same delay before each attempt
  1s,factor=2            1 s, then twice the delay before each further attempt
  1s,factor=3,cap=1h     at most 1 h
  1s,factor=2,jitter=0.5 up to the half of each delay is taken off at random

Retention:
  all                    without a limit
  count=1000             the newest ones
  age=1d                 each for a day
  count=1000,age=1d      both limits

Gates: with --max-taken 8 at most eight tasks are taken at a time. With --rate
10/1s at most ten are taken in any second; other rates are 1/500ms or 5000/1h.
A rate begins anew with each open of the store, with no takes saved up.

Sub-queues: with --sub-queue-limit 2 two tasks of each may be taken at a time,
and with --sub-queue-rate 1/1s one a second. With --sub-queue-cooldown 2s none is
taken for two seconds after each end of a task, however long the work took, and
for two seconds after each open of the store. With --shared-limits the tasks of all
such tubes count together, up to the limit that `tubewell set-limit` gives to the
name of the sub-queue.

Metrics: with --metrics 30 the tube counts what happens on each day, and keeps
the last 30 days. `tubewell days` shows them.

With --if-not-exists a tube that exists gets the options that are named here. The
others stay, as after `tubewell alter`.

Examples:
  tubewell create mail
  tubewell create calls --max-attempts 5 --backoff 10s,factor=2,cap=1h
  tubewell create sums --keep-done count=1000,age=7d
  tubewell create crawl --driver utubettl --ttr 30s
  tubewell create uploads --driver limfifottl --capacity 1000 --ttl 1d
  tubewell create thumbnails --durability 'write(50ms)'
  tubewell create pages --max-taken 8 --rate 10/1s --if-not-exists
  tubewell create hosts --driver utube --sub-queue-rate 1/1s
  tubewell create polite --driver utube --sub-queue-cooldown 2s
  tubewell create orders --metrics 90";

pub const SET_LIMIT: &str = "\
Counts the taken tasks of the sub-queues with this name, in all tubes with
--shared-limits together. A limit that is lowered takes no task away from its
worker. Without a limit a sub-queue has the --sub-queue-limit of its tube.

Examples:
  tubewell set-limit database 2
  tubewell set-limit database 0      no more takes
  tubewell set-limit database none   remove the limit";

pub const LIMITS: &str = "\
Example:
  tubewell limits";

pub const ALTER: &str = "\
Options that are not named stay as they are. --default NAME sets one back to its
default, so that a limit can be removed. The driver does not change.
`tubewell create --help` explains the values of the options.

New times and priorities hold for later puts, new limits for later takes. A
limit that is lowered takes no task away from its worker.

Examples:
  tubewell alter mail --max-taken 2
  tubewell alter mail --ttr 30s --max-attempts 5
  tubewell alter mail --metrics 30 --default max-taken";

pub const DAYS: &str = "\
For tubes with --metrics. Days are those of UTC. Days on which nothing happened
are left out.

  PUTS      tasks that came into the tube
  TAKES     tasks that workers took
  ACKS      tasks that workers finished
  FAILURES  failed attempts, and tasks that were buried with a failure
  FAILED    tasks that failed for good on that day, and are still buried
  LOST      claims that ended without their workers
  RETRIED   takes of tasks that had been attempted before
  WAIT      from ready to taken: the median, and the 99th percentile
  RUN       from taken to finished, as above

With --plot, each line counts the times from the one that it shows up to twice
that time.
An export does not contain these numbers; a backup does.

Examples:
  tubewell days mail
  tubewell days mail --last 7
  tubewell days mail --plot run
  tubewell days mail --json | jq '[.date, .acks, .run.p99]'";

pub const PAUSE: &str = "\
Tasks can be put, and those that were taken can be finished. Delays and times
to live go on. A second pause replaces the first one.

Examples:
  tubewell pause mail                stop until `tubewell unpause mail`
  tubewell pause mail --for 10m      stop for ten minutes
  tubewell pause mail --until 2026-12-24T09:00:00+01:00
  tubewell pause crawl --sub-queue example.org --for 1h";

pub const UNPAUSE: &str = "\
Example:
  tubewell unpause mail";

pub const DROP: &str = "\
Example:
  tubewell drop mail";

pub const TUBES: &str = "\
Examples:
  tubewell tubes
  tubewell tubes --json | jq -r .tube";

pub const PUT: &str = "\
Examples:
  tubewell put mail 'to: ann'
  tubewell put mail - < letter.txt
  tubewell put mail 'remind bob' --delay 2h --priority 5
  tubewell put mail 'to: ann' --not-before 2026-12-24T09:00:00+01:00
  tubewell put crawl http://example.org/ --sub-queue example.org
  tubewell put mail 'once only' --max-attempts 1
  tubewell put mail 'all is sent' --after 3,4
  tubewell put mail 'page.html' --after 5 --after-tube mail --on-parent bury
  tubewell put mail 'welcome ann' --key 'welcome ann' --on-key keep
  tubewell put mail 'the bill' --tag 'customer 7' --tag bill
  tubewell put mail 'to: ann' --idempotency-key welcome-ann-2026
  tubewell put mail -- '--begins with dashes--'";

pub const IMPORT_USAGE: &str = "tubewell import [OPTIONS] <TUBE>
       tubewell import [OPTIONS] --all";

pub const REQUEUE: &str = "\
The task gets the body and the options that are given here. Its id and the
options that are left out stay, but for its delay and its ttl, which begin anew.
A claim on it ends. If it is in another tube, it moves.

Example:
  tubewell put mail 'to: ann' --key ann
  tubewell requeue mail ann 'to: ann, with the bill'";

pub const FIND: &str = "\
Examples:
  tubewell put mail 'to: ann' --key ann
  tubewell find ann
  tubewell find ann --json | jq -r .tube
  tubewell find --id 17";

pub const SCHEDULE: &str = "\
The store puts the runs while a process has it open: `work`, your program, or
any command. A run is a task with the key KEY-1, KEY-2 and so on. If runs were
missed, the store puts the newest one by default; --missed changes that.

If a schedule has the key already, the body and the options replace its own. It
keeps its count of runs and, if the interval or the expression is the same, its
next moment.

A cron expression has the fields minute, hour, day of the month, month and day of
the week. With six fields, the first one is the second of the minute. A run in
the hour that is skipped when clocks go forward is due right after that hour.

Examples:
  tubewell schedule mail day report --every 1d --starting 2026-01-01T03:00:00Z
  tubewell schedule mail news 'to: bob' --cron '0 9 * * 1-5' --missed skip
  tubewell schedule mail tidy tidy --every 10m --overlap skip --times 100";

pub const RESCHEDULE: &str = "\
A new interval counts from the moment of the last run. If the schedule is in
another tube, it moves to this one. The command changes an option of what the
runs put by reading their task and storing it again, with the other changes in
one commit. A change of the task by another process in between is lost.

Examples:
  tubewell reschedule mail report --every 12h
  tubewell reschedule mail report --body 'to: ann, bob' --times none";

pub const UNSCHEDULE: &str = "\
Example:
  tubewell unschedule report";

pub const SCHEDULES: &str = "\
Examples:
  tubewell schedules
  tubewell schedules mail --json";

pub const IMPORT: &str = "\
Lines are stored in batches, each atomically. If a line cannot be stored, all
lines before it are stored and none from it on; the message has its number. An
option of the command line applies to the lines that do not give it.

With --all a new store keeps the ids of the tasks. A store that has had tasks
gives them new ids. Blocked tasks are stored last, after the tasks that they
wait for; if one of these is missing, the task is buried in the failure group
parents-unknown.

Examples:
  tubewell import mail < addresses.txt
  find . -name '*.jpg' | tubewell import resize --ttr 5m
  tubewell import mail --format json < tasks.jsonl
  tubewell --store new.tubewell import --all < all.jsonl

A line of tasks.jsonl:
  {\"data\": \"to: ann\", \"priority\": 1, \"delay\": \"10m\"}";

pub const POP: &str = "\
The body is printed unchanged; on a terminal a line end follows. The task is
removed after the whole body was written. If that fails, the task stays in the
tube. `tubewell peek` shows the next task without removing it.

Examples:
  tubewell pop mail
  tubewell pop mail --timeout 10s > letter.txt
  tubewell pop mail --json";

pub const CLAIM: &str = "\
The first line of the output is a token for `ack`, `release`, `fail`, `snooze`,
`bury`, `advance` and `renew`; the body follows. The task stays taken when this
command has ended. If nothing ends or renews the claim within its time, the task
is ready again. `work` does all of this by itself while it runs.

Examples:
  tubewell claim mail --for 10m
  tubewell claim mail 17 --for 2d --json
  tubewell claim mail | { read -r token; ./send.sh && tubewell ack \"$token\"; }";

pub const ACK: &str = "\
A tube that was created with --keep-done keeps the task and its result;
`outcome` shows it. Any other tube removes the task, and drops the result.

Examples:
  tubewell ack \"$token\"
  tubewell ack \"$other\" --result 42
  echo 42 | tubewell ack \"$third\" --result-file -";

pub const RELEASE: &str = "\
Without a delay the task is ready again in its old place.

Example:
  tubewell release \"$token\" --delay 10m";

pub const FAIL: &str = "\
While attempts are left, the task is ready again after --delay, or after the
backoff of its tube. After the last attempt it is buried, in the failure group.
Without `create --max-attempts` there is no last attempt. `list` and `peek` show
the last failure of a task.

Example:
  tubewell fail \"$token\" --group timeout --message 'no answer in 30 s'";

pub const SNOOZE: &str = "\
For a task that cannot be done now, through no fault of its own: a server is
under maintenance. The attempt does not count.

Example:
  tubewell snooze \"$token\" 10m";

pub const ADVANCE: &str = "\
It is one commit: after a crash, the task is in one of the tubes. It keeps its
id and its age, and has all attempts of the other tube. Its options are those
that are given here, or the defaults of the other tube. If that tube refuses
the task, the claim stands.

Examples:
  tubewell advance \"$token\" urgent
  tubewell advance \"$other\" resize 'cat.jpg 200' --delay 1m";

pub const MOVE_USAGE: &str = "tubewell move [OPTIONS] <TUBE> <TO> <ID>...
       tubewell move [OPTIONS] <TUBE> <TO> --all [--limit <N>]
       tubewell move [OPTIONS] <TUBE> <TO> --state <STATE> [--tag <TAG>] [--limit <N>]
       tubewell move [OPTIONS] <TUBE> <TO> --group <NAME> [--tag <TAG>] [--limit <N>]
       tubewell move [OPTIONS] <TUBE> <TO> --tag <TAG> [--limit <N>]";

pub const MOVE: &str = "\
Tasks keep their ids, states, options and attempts. A claim on a task ends,
and its attempt does not count. Tasks that are done stay where they are kept.

Examples:
  tubewell move mail urgent 17
  tubewell move mail urgent --all
  tubewell move mail urgent --group timeout --limit 10
  tubewell move mail urgent --state buried --tag 'customer 7'";

pub const RENEW: &str = "\
The token stays the same.

Example:
  tubewell renew \"$token\" --for 2h";

pub const REVOKE_USAGE: &str = "tubewell revoke [OPTIONS] <TUBE> <ID>...
       tubewell revoke [OPTIONS] <TUBE> --all";

pub const REVOKE: &str = "\
The tasks are ready again in their old places, and their tokens are no longer
accepted. The attempt does not count, as it does after `release`.

Examples:
  tubewell revoke mail 17
  tubewell revoke mail --all";

pub const WORK_USAGE: &str = "tubewell work [OPTIONS] <TUBE>... -- <CMD> [ARG]...";

pub const WORK: &str = "\
CMD reads the body from standard input. Its environment has TUBEWELL_ID,
TUBEWELL_TUBE, TUBEWELL_TAKES, TUBEWELL_ATTEMPT and, if the task has them,
TUBEWELL_ATTEMPTS_LEFT, TUBEWELL_SUB_QUEUE, TUBEWELL_KEY, TUBEWELL_TAGS (a tag
a line) and TRACEPARENT.

Exit codes of CMD:
  0      the task is done; --keep-output keeps standard output as its result
  65     the task is buried: no attempt can do it (EX_DATAERR)
  75     the task is snoozed: ready again, after --delay, and the attempt does
         not count (EX_TEMPFAIL)
  other  the attempt has failed: the task is ready again, after --delay or
         --backoff. If the task has a limit of attempts, or a backoff, the
         failure is recorded with the last lines of standard error, and the
         task is buried after its last attempt.

A command that runs longer than --max-runtime, and the processes that it
started, get SIGTERM, after 5 seconds SIGKILL. The attempt has failed, also if
work is told to stop.

Any number of processes can work if one serves the store (`tubewell serve`, or
`StoreAdmin::serve` in an application). Otherwise the store is in use while work
runs: no other process can open it, CMD neither, and without --once, work waits
until a delayed task is ready.

Ctrl-C or SIGTERM: no new command starts, running commands finish. A second
signal: running commands get SIGTERM, after 5 seconds SIGKILL, and their tasks
are ready again. If work itself is killed, its tasks are ready at once if another
process has the store open, otherwise at the next open, or delayed or buried by
the rules of their tubes.

Examples:
  tubewell work mail -- ./send.sh
  tubewell work urgent mail --jobs 4 -- ./send.sh
  tubewell work mail urgent --order round-robin --max-runtime 10m -- ./send.sh
  tubewell work mail --backoff 1s,factor=2,cap=1h --max-attempts 5 -- ./send.sh
  tubewell work sums --keep-output -- wc -c
  tubewell work mail --once --on-failure bury -- sh -c 'cat > $TUBEWELL_ID'";

pub const PEEK: &str = "\
Examples:
  tubewell peek mail         the next task
  tubewell peek mail 17      task 17
  tubewell peek mail 17 --body > letter.txt";

pub const LIST: &str = "\
Ready tasks come first, then taken, delayed, blocked and buried ones. Within a
state the order is by priority, then by age. Ready tasks of a tube with
sub-queues are grouped by sub-queue. --state delayed alone lists by due time.
Done tasks, which a tube with --keep-done keeps, are listed only with --state
done, in the order of their ends. Buried tasks of a tube with --keep-buried are
listed in the order of their burials. PARENTS is how many other tasks a task
waits for. Tasks with a --tag come in the order of their ids, state by state.

Examples:
  tubewell list mail
  tubewell list mail --state delayed
  tubewell list mail --state delayed,buried --limit 20 --skip 40
  tubewell list mail --state buried --bodies
  tubewell list mail --group timeout
  tubewell list mail --tag 'customer 7' --state buried
  tubewell list mail --owner worker-3
  tubewell list mail --state done --newest-first --limit 20
  tubewell list mail --all --json | jq .id";

pub const TAGGED: &str = "\
The tasks come in the order of their ids, whatever their state and their tube.

Examples:
  tubewell tagged 'customer 7'
  tubewell tagged tracked --all --json | jq .id";

pub const TAGS: &str = "\
A tag that only one task has is left out: `tagged` finds it. Tasks of a dropped
or truncated tube count until their rows are removed, which begins immediately.

Examples:
  tubewell tags
  tubewell tags --limit 10 --json";

pub const ADD_TAGS: &str = "\
The new tags come after those that the task has. The task may be in any state.
A task has at most 32 tags of up to 255 bytes.

Example:
  tubewell add-tags mail 17 tracked 'customer 7'";

pub const REMOVE_TAGS: &str = "\
A tag that the task does not have is skipped.

Example:
  tubewell remove-tags mail 17 tracked";

pub const BURY_USAGE: &str = "tubewell bury [OPTIONS] <TUBE> <ID>...
       tubewell bury [OPTIONS] <TOKEN> [--group <NAME> [--message <TEXT>]]";

pub const BURY: &str = "\
With the token of a claim, `bury` may say why: for a task that no attempt can do.
`fail` buries a task after its last attempt only.

Examples:
  tubewell bury mail 17 18
  tubewell bury \"$token\" --group invalid --message 'no such address'";

pub const KICK_USAGE: &str = "tubewell kick [OPTIONS] <TUBE> <ID>...
       tubewell kick [OPTIONS] <TUBE> --count <N>
       tubewell kick [OPTIONS] <TUBE> --all
       tubewell kick [OPTIONS] <TUBE> --group <NAME> [--tag <TAG>] [--count <N>]
       tubewell kick [OPTIONS] <TUBE> --tag <TAG> [--count <N>]
       tubewell kick [OPTIONS] --all-tubes --all
       tubewell kick [OPTIONS] --all-tubes [--group <NAME>] [--tag <TAG>] [--count <N>]";

pub const KICK: &str = "\
Examples:
  tubewell kick mail 17 18        tasks 17 and 18
  tubewell kick mail --count 10   the first ten, by priority and then by age
  tubewell kick mail --all
  tubewell kick mail --group timeout --count 10
  tubewell kick mail --tag 'customer 7'
  tubewell kick --all-tubes --group timeout";

pub const UPDATE: &str = "\
A priority alone can be changed in every state. A delay, a moment, a body and
tags need a task that waits: a ready, delayed or blocked one, and for a body and
tags also a buried one. The tags replace all that the task has; add-tags and
remove-tags change some of them in every state.

Examples:
  tubewell update mail 17 18 --priority 0
  tubewell update mail 17 --delay 10m
  tubewell update mail 17 --not-before none
  tubewell update mail 18 --body 'to: ann, bob'
  tubewell update mail 18 --tag checked --tag ann
  echo 'to: ann' | tubewell update mail 18 --body-file -";

pub const ADD_PARENTS: &str = "\
The task is blocked until its parents are done: acked or resolved. It must be
ready, delayed or blocked. A parent that is done or removed already is not
waited for. `put --after` puts a task with its parents.

Examples:
  tubewell add-parents mail 17 3 4
  tubewell add-parents mail 18 3 --parent-tube mail --json";

pub const REMOVE_PARENTS_USAGE: &str = "tubewell remove-parents [OPTIONS] <TUBE> <ID> <PARENT>...
       tubewell remove-parents [OPTIONS] <TUBE> <ID> --all";

pub const REMOVE_PARENTS: &str = "\
A blocked task without parents is ready, or delayed until its delay has elapsed.

Examples:
  tubewell remove-parents mail 17 3
  tubewell remove-parents mail 17 --all";

pub const PARENTS: &str = "\
The tasks are not done yet. They may be in any tube.

Example:
  tubewell parents mail 17";

pub const CHILDREN: &str = "\
The tasks may be in any tube. At most 10,000 are listed.

Example:
  tubewell children mail 3";

pub const CANCEL: &str = "\
Example:
  tubewell cancel mail 17 18";

pub const DELETE_USAGE: &str = "tubewell delete [OPTIONS] <TUBE> <ID>... [--if <STATE>]
       tubewell delete [OPTIONS] <TUBE> --state <STATE> [--tag <TAG>] [--limit <N>]
       tubewell delete [OPTIONS] <TUBE> --group <NAME> [--tag <TAG>] [--limit <N>]
       tubewell delete [OPTIONS] <TUBE> --tag <TAG> [--limit <N>]
       tubewell delete [OPTIONS] --all-tubes [--state <STATE>] [--group <NAME>] [--tag <TAG>] [--limit <N>]
       tubewell delete [OPTIONS] --all-tubes --id <ID>... [--with-dependents <N>]";

pub const DELETE: &str = "\
Without --if, tasks in any state are deleted. A worker that has such a task may
go on, but it cannot finish the task any more. Up to 10,000 tasks that are named
are deleted with one commit. A task is not deleted while other tasks wait for it
that are not deleted with it, and then none is: `resolve` it, let them no longer
wait (`remove-parents`), or delete them too. `--all-tubes --id` deletes tasks of
any tubes with one commit, `--with-dependents` also all that wait for them.
`cancel` deletes only tasks that have not begun, and `truncate` deletes all
tasks of a tube.

Examples:
  tubewell delete mail 17 18
  tubewell delete mail 19 --if ready,delayed
  tubewell delete mail --state buried
  tubewell delete mail --group timeout --limit 10
  tubewell delete mail --tag 'customer 7'
  tubewell delete --all-tubes --tag 'customer 7'
  tubewell delete --all-tubes --id 20,21
  tubewell delete --all-tubes --id 22 --with-dependents 100";

pub const OUTCOME: &str = "\
For a task that is done, or buried. With --result only its result is printed,
unchanged; on a terminal a line end follows. The exit code is 3 if the task has
not ended, if nothing is kept of it, or if --result finds no result.

Examples:
  tubewell outcome sums 30
  tubewell outcome sums 30 --result > sum.txt";

pub const GROUPS: &str = "\
The tasks that were buried without a failure are in no group.

Examples:
  tubewell groups                 of all tubes
  tubewell groups mail
  tubewell list mail --group timeout";

pub const HISTORY: &str = "\
A tube with --history keeps an entry for each change of a task: its put, its
takes and their ends, its moves, and those that `log` adds. The tube keeps the
first entry and the newest ones. A gap in the numbers shows that some were
removed.

Examples:
  tubewell history mail 17
  tubewell history mail 17 --json";

pub const LOG: &str = "\
Needs a tube with --history. The task may be in any state.

Examples:
  tubewell log mail 17 'ann asked for it by telephone'";

pub const RESOLVE: &str = "\
For a task whose work was done by hand: a ready, delayed, blocked or buried one.
Tasks that wait for it stop waiting for it. If its tube keeps done tasks, it
keeps the task and the result.

Examples:
  tubewell resolve mail 17
  tubewell resolve mail 18 --result 'called her'";

pub const FORGET: &str = "\
Without it, they are removed as the --keep-done of their tube says. `delete`
removes tasks in any state.

Example:
  tubewell forget sums 30 31";

pub const RELEASE_ALL: &str = "\
Example:
  tubewell release-all mail";

pub const TRUNCATE: &str = "\
Example:
  tubewell truncate mail";

pub const STATS: &str = "\
KEPT are the tasks that are done and kept, which are not part of the total. The
last line has the size of the store: the length of its file.

Examples:
  tubewell stats
  tubewell stats mail --json";

pub const EVENTS: &str = "\
Without --follow, the next event is printed, and those that came with it. With
--follow all events are, until a signal, or until none comes within --timeout.
The exit code is 3 if there was none.

What another process does is seen if it serves the store: an application with
`StoreAdmin::serve`, or `tubewell serve`. Otherwise there are only delays, ttls and
schedules that fall due.

Examples:
  tubewell events mail --kind bury
  tubewell events --follow
  tubewell events mail news --kind ack,bury --follow --json
  tubewell events --tag 'customer 7' --follow --timeout 10m";

pub const TOP_COMMAND: &str = "\
The first screen lists the tubes, the running tasks, the failure groups and the
schedules. Enter opens a tube or a task; `?` lists the keys. PUT/S, TAKE/S, ACK/S
and FAIL/S are counts a second, of the last 5 seconds. WAITING counts takes that
wait for a task and puts that wait for space.

The store is read when a task changes, once per --interval at most. A store in
which nothing changes is not read.

Examples:
  tubewell top
  tubewell top mail --interval 5s";

pub const SERVE: &str = "\
Every other command finds the socket beside the file and goes through this
process; a socket elsewhere is named with --connect unix:PATH. Applications use
`tubewell::connect`. Only processes of this user and of root can connect to the
socket.

TCP connections are encrypted and authenticated with the secret, which is never
sent. It must be random, because an attacker on the network can test guesses:
`openssl rand -hex 32 >secret`.

Over HTTP, programs in any language put and take tasks; docs/http.md has the
calls. Without a token, only programs of this machine are answered.

A signal ends it: what was acknowledged is stored, and tasks that are taken are
ready again, but for those of `claim`.

Examples:
  tubewell serve jobs.tubewell
  tubewell serve --http 127.0.0.1:11380
  tubewell serve --socket /run/jobs.sock
  tubewell serve --tcp 127.0.0.1:7711 --secret-file secret
  tubewell --connect tcp://127.0.0.1:7711 --secret-file secret stats";

pub const VERIFY: &str = "\
Prints one line per defect. The exit code is 7 if there is one.

Example:
  tubewell verify";

pub const COMPACT: &str = "\
The store keeps all its tasks, even if compact is killed.

Example:
  tubewell compact";

pub const BACKUP: &str = "\
The copy is a store. The file gets its name after it was written and flushed.
An existing file is never overwritten. If backup is killed, remove the file
that it leaves, whose name ends in .partial.

Examples:
  tubewell backup monday.tubewell
  tubewell --store monday.tubewell verify";

pub const EXPORT: &str = "\
One line per tube and per task, ordered by id within a tube. The store is only
read. Damaged records are left out and reported on standard error; the exit
code is 7 if there are any. `tubewell import --all` reads what export wrote.
If a process serves the store, it makes a copy beside the file, which is
exported and then removed.

Examples:
  tubewell export all.jsonl
  tubewell export - | gzip > all.jsonl.gz
  tubewell --store new.tubewell import --all < all.jsonl";

pub const COMPLETIONS: &str = "\
The script calls tubewell for the words to offer: commands, options, values
and, of the store that is named, tubes. It offers no tubes while a process has
the store open that does not serve it.

Examples:
  echo 'source <(tubewell completions bash)' >> ~/.bashrc
  echo 'source <(tubewell completions zsh)' >> ~/.zshrc
  echo 'tubewell completions fish | source' >> ~/.config/fish/config.fish";

pub const MAN: &str = "\
Examples:
  tubewell man | man -l -
  tubewell man work | man -l -
  tubewell man --out ~/.local/share/man/man1";
