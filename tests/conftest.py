"""Generated cases are the same in every run, so that a red run can be repeated; `--hypothesis-seed`
gives others."""

from hypothesis import settings

settings.register_profile("onbeat", derandomize=True, database=None, deadline=None, print_blob=True)
settings.load_profile("onbeat")
