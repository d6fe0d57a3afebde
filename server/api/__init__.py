"""HTTP and pages: sessions, WHEP, videos, health, metrics."""
