"""Where the CPU work of requests runs: bounded, in turn between tenants, and ended when it must."""
