"""Durable jobs: store, worker, artifacts."""
