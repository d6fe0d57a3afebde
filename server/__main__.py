"""`python -m onbeat.server` is the `onbeat` command."""

from onbeat.server.cli import main

if __name__ == "__main__":
    main()
