r"""The JavaScript that runs inside V8: it walks through the looks of a scan.

Patterns and texts come in as one JSON string and are never part of the program. Each pattern is
compiled twice. `plain` is the pattern itself. `probe` finds out whether there is a match at all:

    [^]*?(?:P)|()       sticky, at index 0

The lazy loop is the one that V8 puts before every search anyway, so the probe does the same work
as the search. V8's `exec` gives null both on a miss and at the backtrack limit; the probe tells
them apart, for on a miss its last alternative matches: null then means the limit, and a last group
that took part means a miss. The count of backtracks does not depend on the machine or its load.

The added group stands last and so moves no number, but without `u` it can turn an octal escape
such as `\2` into a back-reference. Patterns that may hold one are asked again through `plain` when
the probe finds no more than the empty string.

Work that is not counted in backtracks (a greedy loop over one character class) is watched by the
clock; the walk halts at a suspect and the caller decides, see walk.py. A run that was interrupted
leaves the job as it was: the look under way begins anew and takes what is known from `job.known`.

Commands, each with a string as argument and a string as answer:

    load JSON   take a job: a text, without what it begins with as the last job's does (`kept`);
                views of it, each so many ranges that are searched as one text; patterns; looks;
                indexes of patterns timed out before (`bad`), and how many time-outs are left
    go          walk on; answers "pause" after a while, "halt" at a suspect, or the results
    limit       the milliseconds that the pattern under way may take, "0" if none is
    confirm     run the suspect again
    keep, drop  take that second run for its outcome; make it a time-out
    close       try no further pattern in this job

All commands may be repeated, so an interrupted one can be sent again.

A text is kept once, whatever the number of views. A view of one range is a slice of it and takes no
memory in V8; one of several is put together when a look comes to it. Inside a slice, `^`, `$` and
what looks behind see its ends and nothing beyond.
"""

# At a quarter of a million backtracks per millisecond (measured on x86-64) the limit takes 3 to 4
# ms on texts up to 16,384 characters; that is 48 a character, where harmless patterns need up to
# 30. It doubles with each fourfold length: a whole history of 1.6 million characters gets 16 times
# as many, eight a character, so that a runaway there costs 50 ms and not half a second.
#
# The clock's 5 ms are for a message of the greatest length; a longer text gets as much for each
# such length: looking for /[^\n]*dragon/ in 1.6 million characters takes 300 ms in all honesty.
PROGRAM = r"""
(() => {
  "use strict";
  const BACKTRACKS = 3 << 18, UP_TO_LENGTH = 1 << 14;
  const LIMIT_MS = 5, MESSAGE_LENGTH = 16000, SLICE_MS = 10;
  const MOST_CACHED = 2000, MOST_CACHED_CHARS = 500000;
  const MISS = 0, INVALID = "invalid", TIMEOUT = "timeout";
  const PAUSE = "pause", HALT = "halt";

  for (const source of ["(?i:a)", "(?<a>x)|(?<a>y)"]) {
    try { new RegExp(source); } catch { continue; }
    throw new Error("V8 was started without our flags");
  }

  const cache = new Map();
  let cachedChars = 0;
  let text = "";
  let job = null;

  function backtracks(length) {
    let limit = BACKTRACKS;
    for (let most = UP_TO_LENGTH; most < length; most *= 4) limit *= 2;
    return limit;
  }

  const limitMs = length => LIMIT_MS * Math.max(1, length / MESSAGE_LENGTH);

  function build(source, flags, limit) {
    const plain = %NewRegExpWithBacktrackLimit(source, flags, limit);
    const sticky = flags.includes("y");
    const probe = %NewRegExpWithBacktrackLimit(
      (sticky ? "" : "[^]*?") + "(?:" + source + ")|()", sticky ? flags : flags + "y", limit);
    return { plain, probe, tells: flags.includes("u") || !/\\[1-9]/.test(source) };
  }

  function compiled(source, flags, limit) {
    const key = limit + flags + "/" + source;
    let made = cache.get(key);
    if (made === undefined) {
      made = build(source, flags, limit);
      if (cache.size >= MOST_CACHED || cachedChars > MOST_CACHED_CHARS) {
        cache.clear();
        cachedChars = 0;
      }
      cache.set(key, made);
      cachedChars += source.length;
    }
    return made;
  }

  function lengthOf(v) {
    const ranges = job.views[v];
    let length = 0;
    for (let i = 0; i < ranges.length; i += 2) length += ranges[i + 1] - ranges[i];
    return length;
  }

  function show(v) {
    if (job.shown !== v) {
      const ranges = job.views[v];
      let joined = "";
      for (let i = 0; i < ranges.length; i += 2) joined += text.slice(ranges[i], ranges[i + 1]);
      job.view = %FlattenString(joined);
      job.shown = v;
    }
    return job.view;
  }

  function attempt([p, v]) {
    if (job.patterns[p] === null) return INVALID;
    const [source, flags] = job.patterns[p];
    const view = show(v);
    try {
      const { plain, probe, tells } = compiled(source, flags, backtracks(view.length));
      probe.lastIndex = plain.lastIndex = 0;
      const found = probe.exec(view);
      if (found === null) return TIMEOUT;
      if (tells && found[found.length - 1] !== undefined) return MISS;
      const match = plain.exec(view);
      return match === null ? MISS : [match.index, match.index + match[0].length];
    } catch (error) {  // a SyntaxError may come late: code is generated at the first run
      return error instanceof SyntaxError ? INVALID : TIMEOUT;
    }
  }

  const keyOf = ([p, v]) => p * job.views.length + v;

  function learn(pair, outcome) {
    if (outcome === TIMEOUT && !job.bad.has(pair[0])) {
      job.bad.add(pair[0]);
      job.left -= 1;
    }
    job.known.set(keyOf(pair), outcome);
    job.at = null;
    return outcome;
  }

  function decide(p, v) {
    const pair = [p, v];
    const known = job.known.get(keyOf(pair));
    if (known !== undefined) return known;
    const length = lengthOf(v);
    if (length === 0) return MISS;
    if (job.left <= 0 || job.bad.has(p)) return TIMEOUT;
    const now = Date.now();
    job.until ??= now + SLICE_MS;
    if (now > job.until) throw PAUSE;
    show(v);
    const began = Date.now();
    job.at = pair;
    const outcome = attempt(pair);
    if (Array.isArray(outcome) || outcome === MISS) {
      if (Date.now() - began > limitMs(length)) throw HALT;
    }
    return learn(pair, outcome);
  }

  function answer([v, primary, fallback, secondary]) {
    const first = [];
    let go = fallback;
    for (const p of primary) {
      const outcome = decide(p, v);
      first.push(outcome);
      if (Array.isArray(outcome)) {
        go = true;
        break;
      }
    }
    return [first, go ? secondary.map(p => decide(p, v)) : []];
  }

  const commands = {
    load(json) {
      const next = JSON.parse(json);
      text = %FlattenString(text.slice(0, next.kept) + next.text);
      job = { ...next, text: null, bad: new Set(next.bad), known: new Map(), seen: [] };
      job.at = job.trial = job.shown = job.view = null;
    },
    go() {
      if (job.results !== undefined) return job.results;
      job.until = null;
      try {
        while (job.seen.length < job.looks.length) {
          job.seen.push(answer(job.looks[job.seen.length]));
        }
        job = { results: JSON.stringify({ seen: job.seen, bad: [...job.bad] }) };
        return job.results;
      } catch (state) {
        if (state === PAUSE || state === HALT) return state;
        throw state;
      }
    },
    limit: () => job?.at ? String(limitMs(lengthOf(job.at[1]))) : "0",
    confirm() { if (job.at) job.trial = attempt(job.at); },
    keep() { if (job.at) learn(job.at, job.trial); },
    drop() { if (job.at) learn(job.at, TIMEOUT); },
    close() { job.left = 0; },
  };
  return (command, argument) => commands[command](argument) ?? "";
})()
"""
