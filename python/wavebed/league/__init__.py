"""A league of emulators: the same recordings and applications over each, beside the recording or a live measurement."""
