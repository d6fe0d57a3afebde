"""Training of toybox: losses, loops and optimisers. Nothing that serves imports it."""
