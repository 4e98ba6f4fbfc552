"""Where the blocks of a plan run: on this machine, or on the workers of a Dask scheduler."""
