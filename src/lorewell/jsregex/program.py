r"""The JavaScript program that runs inside V8 and walks through the looks of a scan.

Patterns and texts are passed as one JSON string and are never part of the program. Each pattern is
compiled twice. `plain` is the pattern itself. `probe` finds out whether it matches at all:

    [^]*?(?:P)|()       sticky, at index 0

V8 puts the same lazy loop before every search, so the probe does the same work as the search. V8's
`exec` returns null both on a miss and at the backtrack limit; the probe distinguishes them. On a
miss its last alternative matches: so null means the limit, and a last group that took part means a
miss. The number of backtracks does not depend on the machine or its load.

The added group is the last one, so that it renumbers no other group. But without `u` it can turn an
octal escape such as `\2` into a back-reference. Patterns that may hold one are run again through
`plain` if the probe only matches the empty string.

The clock bounds work that backtracks don't count (a greedy loop over one character class); the walk
halts at a suspect and the caller decides, see walk.py. An interrupted run leaves the job unchanged:
the current look starts again and takes known outcomes from `job.known`.

Commands, each with a string as argument and a string as answer:

    load JSON   load a job: a text without the beginning it shares with the last one (`kept`);
                views, each a list of ranges that are searched as one text; patterns; looks;
                indexes of patterns that timed out before (`bad`), and the number of timeouts left
    go          continue; answers "pause" after a while, "halt" at a suspect, or the results
    limit       the milliseconds that the current pattern may take; "0" without one
    confirm     run the suspect again
    keep, drop  use the outcome of that second run; make it a timeout
    close       try no further pattern in this job

All commands can be repeated, so an interrupted one can be sent again.

The text is stored once, whatever the number of views. A view of one range is a slice, which takes
no memory in V8; a view of several is joined when a look needs it. In a view, `^`, `$` and
lookbehinds see its ends and nothing beyond.
"""

# At 250,000 backtracks per millisecond (measured on x86-64) the limit takes 3 to 4 ms on texts up
# to 16,384 characters; that is 48 per character, and harmless patterns need up to 30. It doubles
# with each fourfold length: a whole history of 1.6 million characters gets 16 times as many, eight
# per character, so that a runaway pattern costs 50 ms there and not half a second.
#
# The clock allows 5 ms for a message of the greatest length, and as much for each such length of a
# longer text: searching 1.6 million characters for /[^\n]*dragon/ really takes 300 ms.
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
    return { plain, probe, isReliable: flags.includes("u") || !/\\[1-9]/.test(source) };
  }

  function compiled(source, flags, limit) {
    const key = limit + flags + "/" + source;
    let regexes = cache.get(key);
    if (regexes === undefined) {
      regexes = build(source, flags, limit);
      if (cache.size >= MOST_CACHED || cachedChars > MOST_CACHED_CHARS) {
        cache.clear();
        cachedChars = 0;
      }
      cache.set(key, regexes);
      cachedChars += source.length;
    }
    return regexes;
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
      const { plain, probe, isReliable } = compiled(source, flags, backtracks(view.length));
      probe.lastIndex = plain.lastIndex = 0;
      const found = probe.exec(view);
      if (found === null) return TIMEOUT;
      if (isReliable && found[found.length - 1] !== undefined) return MISS;
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
