"""Between our samplers and diffusers: a reader of its scheduler configs, and a scheduler of ours.

`config` needs no diffusers; `scheduler` imports it, and nothing else here imports `scheduler`.
"""
