"""Load on a running server: live viewers and jobs come and go, and tell what they saw."""
