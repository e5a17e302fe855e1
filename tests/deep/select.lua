-- wrk: one body, from a file, to one path; the figures as one line of JSON.
local file = assert(io.open(os.getenv("LOREWELL_TURN"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/json"
file:close()

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\n{"requests": %d, "duration_us": %d, "failed": %d, "p50_us": %d, "p99_us": %d}\n',
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99)))
end
