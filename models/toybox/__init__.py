"""toybox: the embedded audio-video model (see README.md beside this file)."""
