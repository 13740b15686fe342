//! What `--help` shows below the options: commands to copy.

pub const TOP: &str = "\
Durations are a number and a unit: 250ms, 1.5s, 10m, 2h, 7d, 1h30m; or never.

Examples:
  export TUBEWELL_STORE=jobs.tubewell
  tubewell create mail                     make a tube, and the store
  tubewell put mail 'to: ann'              put a task
  tubewell import mail < addresses.txt     put one for each line
  tubewell take mail                       print the next one and finish it
  tubewell work mail --once -- ./send.sh   run a command for each
  tubewell stats                           how many there are

Exit codes:
  0      done
  1      failed: the disk, the file or the system
  2      the command line is wrong
  3      no such task, or none to take
  4      no such store or tube
  5      another process has the store
  6      not as things are: it exists, is full or is busy
  7      done in part, or defects were found
  127    the command of work cannot be started
  141    whoever read the output has gone
  128+N  ended by signal N";

pub const CREATE: &str = "\
Drivers:
  fifo        first in, first out
  fifottl     the same, with priorities, delays and times to live
  utube       fifo with sub-queues, of which one task is taken at a time
  utubettl    fifottl with sub-queues
  limfifottl  fifottl with a capacity

Examples:
  tubewell create mail
  tubewell create crawl --driver utubettl --ttr 30s
  tubewell create uploads --driver limfifottl --capacity 1000 --ttl 1d";

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
  tubewell put mail 'remind bob' --delay 2h --pri 5
  tubewell put crawl http://example.org/ --sub-queue example.org
  tubewell put mail -- '--begins with dashes--'";

pub const IMPORT: &str = "\
Lines are stored in large batches, each wholly or not at all. At a line that
cannot be stored everything before it is in the store and nothing from it on;
the message names the line. The options are for lines that say nothing else.

Examples:
  tubewell import mail < addresses.txt
  find . -name '*.jpg' | tubewell import resize --ttr 5m
  tubewell import mail --format json < tasks.jsonl
  tubewell --store new.tubewell import --all < all.jsonl

A line of tasks.jsonl:
  {\"data\": \"to: ann\", \"pri\": 1, \"delay\": \"10m\"}";

pub const TAKE: &str = "\
The body is printed as it is. The task is finished once all of it has been
written: if that fails, it stays in the tube.

Examples:
  tubewell take mail
  tubewell take mail --timeout 10s > letter.txt
  tubewell take mail --json";

pub const WORK: &str = "\
CMD gets the body on its standard input and TUBEWELL_ID, TUBEWELL_TUBE,
TUBEWELL_TAKES and (if there is one) TUBEWELL_SUB_QUEUE in its environment.
Exit code 0 finishes the task; after any other it is ready again.

While it runs, work owns the store: nobody else can put or look, CMD neither.
Without --once it waits for tasks whose delay is over.

Ctrl-C or SIGTERM: running commands finish, nothing new starts. Once more:
they are ended with SIGTERM, after 5 seconds with SIGKILL, and their tasks are
ready again. If work itself is killed, its tasks are ready when the store is
opened next.

Examples:
  tubewell work mail -- ./send.sh
  tubewell work urgent mail --jobs 4 -- ./send.sh
  tubewell work mail --delay 30s --max-takes 5 -- ./send.sh
  tubewell work mail --once --on-failure bury -- sh -c 'cat > $TUBEWELL_ID'";

pub const PEEK: &str = "\
Examples:
  tubewell peek mail         the next one
  tubewell peek mail 17
  tubewell peek mail 17 --body > letter.txt";

pub const LIST: &str = "\
Examples:
  tubewell list mail
  tubewell list mail --state delayed,buried --limit 20 --skip 40
  tubewell list mail --all --json | jq .id";

pub const BURY: &str = "\
Example:
  tubewell bury mail 17 18";

pub const KICK: &str = "\
Examples:
  tubewell kick mail         the first of them
  tubewell kick mail 10
  tubewell kick mail --all";

pub const DELETE: &str = "\
Example:
  tubewell delete mail 17 18";

pub const RELEASE_ALL: &str = "\
Example:
  tubewell release-all mail";

pub const TRUNCATE: &str = "\
Example:
  tubewell truncate mail";

pub const STATS: &str = "\
Examples:
  tubewell stats
  tubewell stats mail --json";

pub const VERIFY: &str = "\
Prints a line for each defect; exit code 7 if there is one.

Example:
  tubewell verify";

pub const COMPACT: &str = "\
Killed at any moment, it leaves a store that has everything.

Example:
  tubewell compact";

pub const BACKUP: &str = "\
The copy is a store. It has its name once it is whole and flushed; it is never
written over another file. If the command is killed, remove what is left, a
file whose name ends in .partial.

Examples:
  tubewell backup monday.tubewell
  tubewell --store monday.tubewell verify";

pub const EXPORT: &str = "\
A line for each tube and for each task, in the order of their numbers. The
store is only read. What is damaged is left out and named on standard error;
exit code 7 tells that there was some. `tubewell import --all` takes it back.

Examples:
  tubewell export all.jsonl
  tubewell export - | gzip > all.jsonl.gz
  tubewell --store new.tubewell import --all < all.jsonl";

pub const COMPLETIONS: &str = "\
Examples:
  echo 'source <(tubewell completions bash)' >> ~/.bashrc
  tubewell completions zsh > ~/.zfunc/_tubewell
  tubewell completions fish > ~/.config/fish/completions/tubewell.fish";

pub const MAN: &str = "\
Examples:
  tubewell man | man -l -
  tubewell man work | man -l -
  tubewell man --out ~/.local/share/man/man1";
