"""Servers of jobs killed with -9 at random points, hundreds of times. JSON line last.

`python -m benchmarks.jobs.kill [--rounds 300] [--jobs 40] [--on-record 1000] [--postgres]`

The servers have a synthetic engine; all else is as served. Killed at an instant or at a call (to
rename, force, link, unlink, commit, encode, tell), now and then their engine before. Nothing may be
lost, made twice, wrong, untold or left over, and no resumed job may begin more than one chunk anew.
`ready_max`: seconds from the start of a server's work to its readiness,
without the start of Python.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from onbeat.server.cli.flags import whole
from tests.server.jobs.killing import Report, run
from tests.server.jobs.postgres import new_database, running


def measure(folder: Path, args: argparse.Namespace) -> Report:
    given = {
        "rounds": args.rounds,
        "seed": args.seed,
        "open_jobs": args.jobs,
        "on_record": args.on_record,
    }
    if not args.postgres:
        return run(folder, **given)
    with running() as url:
        return run(folder, **given, database_url=new_database(url, "jobs"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=whole(), default=300)
    parser.add_argument("--jobs", type=whole(), default=40, help="open at any time")
    parser.add_argument("--on-record", type=whole(0), default=1000, help="ended jobs before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="instead of SQLite")
    parser.add_argument("--folder", help="where files lie; a temporary folder if unset")
    args = parser.parse_args()
    with TemporaryDirectory(dir=args.folder) as folder:
        report = measure(Path(folder), args)
    database = "postgres" if args.postgres else "sqlite"
    print(json.dumps({"database": database, "clean": report.clean} | asdict(report)))


if __name__ == "__main__":
    main()
