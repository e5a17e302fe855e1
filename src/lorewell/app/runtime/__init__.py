"""What one process keeps between requests: caches, queues, locks and background jobs."""
